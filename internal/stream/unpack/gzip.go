package unpack

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/stream/inflate"
)

// The flags of a member's header (RFC 1952, section 2.3.1).
const (
	gzipHeaderSum = 1 << (iota + 1)
	gzipExtra
	gzipName
	gzipComment
	gzipReserved = 0xe0
)

var (
	errGzipHeader    = errors.New("a header is not one")
	errGzipHeaderSum = errors.New("the checksum of a header is wrong")
	errGzipSum       = errors.New("the checksum is wrong")
	errGzipSize      = errors.New("the length is wrong")
)

// Gzip unpacks a gzip file (RFC 1952), which may have several members, one behind the other. Zeros behind the last one are
// padding, as tapes and gzip(1) have it; anything else there is an error. It takes less than 1 MiB.
func Gzip(r io.Reader) io.ReadCloser {
	origin := stream.Remember(r, barrenBytes)
	return &decoder{r: &members{in: inflate.NewReader(origin)}, origin: origin, name: "gzip"}
}

// members reads one gzip member after the other.
type members struct {
	in     *inflate.Reader
	began  bool // there was a member
	inside bool // its data
	sum    uint32
	size   uint32 // modulo 1<<32
}

// Read implements io.Reader.
func (m *members) Read(p []byte) (int, error) {
	for {
		if !m.inside {
			if err := m.next(); err != nil {
				return 0, err
			}
		}
		n, err := m.in.Read(p)
		m.sum = crc32.Update(m.sum, crc32.IEEETable, p[:n])
		m.size += uint32(n)
		if err == io.EOF {
			m.inside, err = false, m.trailer()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next goes to the data of the next member, or answers io.EOF at the end of the file.
func (m *members) next() error {
	first, err := m.in.ReadByte()
	if err == io.EOF && !m.began { // an empty file
		return io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if m.began && first != 0x1f {
		return m.padding(first)
	}
	header := gzipHeader{in: m.in}
	header.sum = crc32.ChecksumIEEE([]byte{first})
	if err := header.read(first, m.began); err != nil {
		return err
	}
	m.in.Begin()
	m.began, m.inside, m.sum, m.size = true, true, 0, 0
	return nil
}

// trailer reads what follows a member's data, and compares.
func (m *members) trailer() error {
	var b [8]byte
	if err := readBytes(m.in, b[:]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(b[:]) != m.sum {
		return errGzipSum
	}
	if binary.LittleEndian.Uint32(b[4:]) != m.size {
		return errGzipSize
	}
	return nil
}

// padding reads zeros, of which the first was read, to the end of the file and answers io.EOF, or an error where there is
// something else.
func (m *members) padding(b byte) error {
	for b == 0 {
		var err error
		if b, err = m.in.ReadByte(); err != nil {
			return err
		}
	}
	return trailing("gzip")
}

// readBytes fills b.
func readBytes(in io.ByteReader, b []byte) error {
	for i := range b {
		c, err := in.ReadByte()
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		b[i] = c
	}
	return nil
}

// gzipHeader reads a member's header, and hashes what it reads.
type gzipHeader struct {
	in  io.ByteReader
	sum uint32
}

// ReadByte implements io.ByteReader.
func (h *gzipHeader) ReadByte() (byte, error) {
	c, err := h.in.ReadByte()
	if err == nil {
		h.sum = crc32.Update(h.sum, crc32.IEEETable, []byte{c})
	}
	return c, err
}

// read reads the header behind its first byte. Behind another member, what doesn't begin as a header is garbage.
func (h *gzipHeader) read(first byte, behind bool) error {
	var b [9]byte
	if err := readBytes(h, b[:1]); err != nil {
		return err
	}
	if first != 0x1f || b[0] != 0x8b {
		if behind {
			return trailing("gzip")
		}
		return errGzipHeader
	}
	if err := readBytes(h, b[1:]); err != nil {
		return err
	}
	flags := b[2]
	if b[1] != 8 || flags&gzipReserved != 0 {
		return errGzipHeader
	}
	if flags&gzipExtra != 0 {
		if err := h.extra(); err != nil {
			return err
		}
	}
	for _, text := range []byte{gzipName, gzipComment} {
		if flags&text != 0 {
			if err := h.text(); err != nil {
				return err
			}
		}
	}
	if flags&gzipHeaderSum == 0 {
		return nil
	}
	sum := uint16(h.sum)
	if err := readBytes(h, b[:2]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(b[:]) != sum {
		return errGzipHeaderSum
	}
	return nil
}

// extra passes over the extra field.
func (h *gzipHeader) extra() error {
	var b [1]byte
	var length [2]byte
	if err := readBytes(h, length[:]); err != nil {
		return err
	}
	for range binary.LittleEndian.Uint16(length[:]) {
		if err := readBytes(h, b[:]); err != nil {
			return err
		}
	}
	return nil
}

// text passes over a text that ends with a zero.
func (h *gzipHeader) text() error {
	var b [1]byte
	for {
		if err := readBytes(h, b[:]); err != nil {
			return err
		}
		if b[0] == 0 {
			return nil
		}
	}
}
