package unpack

import (
	"bufio"
	"io"

	"github.com/klauspost/compress/gzip"

	"vmdisk.io/vmdisk/internal/stream"
)

// Gzip unpacks a gzip file (RFC 1952), which may have several members, one behind the other. Zeros behind the last one are
// padding, as tapes and gzip(1) have it; anything else there is an error. It takes less than 1 MiB.
func Gzip(r io.Reader) io.ReadCloser {
	origin := stream.Remember(r)
	return &decoder{r: &members{in: bufio.NewReaderSize(origin, readAhead)}, origin: origin, name: "gzip"}
}

// members reads one gzip member after the other.
type members struct {
	in   *bufio.Reader
	gzip *gzip.Reader
}

// Read implements io.Reader.
func (m *members) Read(p []byte) (int, error) {
	for {
		if m.gzip == nil {
			z, err := gzip.NewReader(m.in)
			if err == io.EOF { // an empty stream
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return 0, err
			}
			m.gzip = z
			m.gzip.Multistream(false)
		}
		n, err := m.gzip.Read(p)
		if err != io.EOF {
			return n, err
		}
		if err := m.next(); n > 0 || err != nil {
			return n, err
		}
	}
}

// next goes on with the next member, or answers io.EOF at the end of the file.
func (m *members) next() error {
	first, err := m.in.Peek(2)
	if len(first) == 2 && first[0] == 0x1f && first[1] == 0x8b {
		err := m.gzip.Reset(m.in)
		m.gzip.Multistream(false)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if err != nil && err != io.EOF {
		return err
	}
	return padding(m.in, "gzip")
}

// padding reads zeros to the end of a stream and answers io.EOF, or an error where there is something else.
func padding(in *bufio.Reader, name string) error {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			return trailing(name)
		}
	}
}
