package xz

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"vmdisk.io/vmdisk/internal/stream"
)

const (
	headerMagic = "\xfd7zXZ\x00"
	footerMagic = "YZ"
	filterLZMA2 = 0x21
	// unknown is a size that a block's header doesn't tell.
	unknown = -1
)

var (
	errHeader   = errors.New("the checksum of a header is wrong")
	errIndex    = errors.New("the index contradicts the blocks")
	errPadding  = errors.New("padding is not zero")
	errVarint   = errors.New("a number is not encoded as it should be")
	errPadding4 = errors.New("the padding behind a stream is no multiple of four bytes")
	errFooter   = errors.New("the end contradicts the beginning")
)

// check is which checksum each block has (The .xz File Format 1.2.1, section 2.1.1.2).
type check byte

// size is how many bytes the checksum has.
func (c check) size() int {
	return [16]int{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}[c&15]
}

// hash makes what computes it, nil for none.
func (c check) hash() (hash.Hash, error) {
	switch c {
	case 0:
		return nil, nil
	case 1:
		return crc32.NewIEEE(), nil
	case 4:
		return newCRC64(), nil
	case 10:
		return sha256.New(), nil
	default:
		return nil, stream.FormatErrorf(stream.Unsupported, "the xz stream has checksums of kind %d, which is not known: compress the file with --check=crc64", c)
	}
}

// sum is the checksum as a block has it: the numbers are little-endian.
func sum(h hash.Hash) []byte {
	switch h := h.(type) {
	case hash.Hash32:
		return binary.LittleEndian.AppendUint32(nil, h.Sum32())
	case hash.Hash64:
		return binary.LittleEndian.AppendUint64(nil, h.Sum64())
	default:
		return h.Sum(nil)
	}
}

func newCRC64() hash.Hash { return crc64.New(crc64.MakeTable(crc64.ECMA)) }

// readStreamHeader reads what follows the first four bytes of a stream header (section 2.1.1).
func readStreamHeader(in io.Reader, first []byte) (check, error) {
	var b [12]byte
	copy(b[:], first)
	if _, err := io.ReadFull(in, b[4:]); err != nil {
		return 0, cut(err)
	}
	if string(b[:6]) != headerMagic || crc32.ChecksumIEEE(b[6:8]) != binary.LittleEndian.Uint32(b[8:]) {
		return 0, errHeader
	}
	if b[6] != 0 || b[7]&0xf0 != 0 {
		return 0, stream.FormatErrorf(stream.Unsupported, "the xz stream has flags that are not known: compress the file with a usual xz")
	}
	return check(b[7]), nil
}

// block is what a block's header tells (section 3.1).
type block struct {
	headerLen       int   // bytes
	packed, decoded int64 // bytes, or unknown
	dict            uint32
}

// readBlockHeader reads a block header after its first byte, which is not 0.
func readBlockHeader(in io.Reader, first byte) (block, error) {
	n := (int(first) + 1) * 4
	b := make([]byte, n)
	b[0] = first
	if _, err := io.ReadFull(in, b[1:]); err != nil {
		return block{}, cut(err)
	}
	if crc32.ChecksumIEEE(b[:n-4]) != binary.LittleEndian.Uint32(b[n-4:]) {
		return block{}, errHeader
	}
	flags, rest := b[1], b[2:n-4]
	if flags&0x3c != 0 {
		return block{}, stream.FormatErrorf(stream.Unsupported, "the xz stream has block flags that are not known: compress the file with a usual xz")
	}
	h := block{headerLen: n, packed: unknown, decoded: unknown}
	var err error
	if flags&0x40 != 0 {
		if h.packed, rest, err = takeVarint(rest); err != nil {
			return h, err
		}
	}
	if flags&0x80 != 0 {
		if h.decoded, rest, err = takeVarint(rest); err != nil {
			return h, err
		}
	}
	return readFilters(h, rest, int(flags&3)+1)
}

// readFilters reads the list of filters (section 3.1.5), of which LZMA2 alone is decoded (section 5.3.1).
func readFilters(h block, rest []byte, filters int) (block, error) {
	id, rest, err := takeVarint(rest)
	if err != nil {
		return h, err
	}
	if filters != 1 || id != filterLZMA2 {
		return h, stream.FormatErrorf(stream.Unsupported, "the xz stream was filtered in a way that isn't read (%s): compress the file with xz's presets, without --x86, --delta and the like", filterName(id))
	}
	props, rest, err := takeVarint(rest)
	if err != nil {
		return h, err
	}
	if props != 1 || len(rest) < 1 || rest[0] > 40 {
		return h, errHeader
	}
	switch bits := rest[0]; bits {
	case 40:
		h.dict = 1<<32 - 1
	default:
		h.dict = uint32(2|bits&1) << (bits/2 + 11)
	}
	for _, c := range rest[1:] {
		if c != 0 {
			return h, errPadding
		}
	}
	return h, nil
}

func filterName(id int64) string {
	names := map[int64]string{3: "Delta", 4: "x86", 5: "PowerPC", 6: "IA-64", 7: "ARM", 8: "ARM-Thumb", 9: "SPARC", 10: "ARM64", 11: "RISC-V", filterLZMA2: "several filters"}
	if name, ok := names[id]; ok {
		return name
	}
	return fmt.Sprintf("filter %d", id)
}

// takeVarint takes a number from the beginning of b (section 1.2).
func takeVarint(b []byte) (v int64, rest []byte, err error) {
	for i, c := range b[:min(len(b), 9)] {
		v |= int64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if c == 0 && i > 0 {
				return 0, nil, errVarint
			}
			return v, b[i+1:], nil
		}
	}
	return 0, nil, errVarint
}

// tally sums up blocks, to compare them with the index without keeping them.
type tally struct {
	blocks, size int64 // size of the records in bytes
	hash         uint64
}

// add counts a block by its record (section 4.3).
func (t *tally) add(unpadded, decoded int64) {
	t.blocks++
	for _, v := range [2]int64{unpadded, decoded} {
		for left := v; ; left >>= 7 {
			t.size++
			if left < 0x80 {
				break
			}
		}
		t.hash = (t.hash ^ uint64(v)) * 0x9e3779b97f4a7c15
		t.hash ^= t.hash >> 29
	}
}

// readIndex reads the index after its first byte, and the footer (sections 4 and 2.1.2), and compares them with the
// blocks that there were.
func readIndex(in *bufio.Reader, c check, blocks tally) error {
	crc := crc32.NewIEEE()
	crc.Write([]byte{0}) // a hash never answers an error
	read := &summing{in: in, hash: crc, size: 1}
	count, err := read.varint()
	if err != nil {
		return err
	}
	if count != blocks.blocks {
		return errIndex
	}
	var records tally
	for range count {
		unpadded, err := read.varint()
		if err != nil {
			return err
		}
		decoded, err := read.varint()
		if err != nil {
			return err
		}
		records.add(unpadded, decoded)
	}
	if records != blocks {
		return errIndex
	}
	for read.size%4 != 0 {
		b, err := read.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			return errPadding
		}
	}
	var b [16]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return cut(err)
	}
	if crc.Sum32() != binary.LittleEndian.Uint32(b[:]) {
		return errHeader
	}
	footer := b[4:]
	if crc32.ChecksumIEEE(footer[4:10]) != binary.LittleEndian.Uint32(footer) {
		return errHeader
	}
	if string(footer[10:]) != footerMagic || footer[8] != 0 || check(footer[9]) != c || (int64(binary.LittleEndian.Uint32(footer[4:]))+1)*4 != read.size+4 {
		return errFooter
	}
	return nil
}

// summing reads numbers, and hashes and counts what it reads.
type summing struct {
	in   *bufio.Reader
	hash hash.Hash32
	size int64
}

// ReadByte implements io.ByteReader.
func (s *summing) ReadByte() (byte, error) {
	b, err := s.in.ReadByte()
	if err != nil {
		return 0, cut(err)
	}
	s.hash.Write([]byte{b}) // a hash never answers an error
	s.size++
	return b, nil
}

func (s *summing) varint() (int64, error) {
	var b [9]byte
	for i := range b {
		c, err := s.ReadByte()
		if err != nil {
			return 0, err
		}
		b[i] = c
		if c < 0x80 {
			v, _, err := takeVarint(b[:i+1])
			return v, err
		}
	}
	return 0, errVarint
}
