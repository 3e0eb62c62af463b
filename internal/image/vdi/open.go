package vdi

import (
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// Open reads the header and the block map of the image of the given length in bytes. It answers an *image.Refused for an
// image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	f := image.File{R: r, Length: length, Format: image.VDI}
	head, err := f.Head()
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(head, length, limits)
	if err != nil {
		return nil, err
	}
	n := h.blocks * entryLen
	if n > 0 && h.table > length-n { // before that many bytes are allocated
		return nil, truncated("its block map", h.table, n)
	}
	blocks := blockMap{h, make([]byte, n)}
	inMemory := func(offset int64, n int) ([]byte, error) {
		b := blocks.raw[offset-h.table:][:n]
		return b, f.ReadFull(b, offset, "its block map")
	}
	if err := h.eachBlock(inMemory, func(uint32, int64) error { return nil }); err != nil {
		return nil, err
	}
	return &image.Blocks{File: f, DiskBytes: h.size, BlockBytes: blockSize, Table: blocks}, nil
}

// blockMap is the map as the image has it.
type blockMap struct {
	header
	raw []byte
}

// Find implements image.BlockTable.
func (m blockMap) Find(number int64) (offset int64, stored bool) {
	place, stored := entry(m.raw, number)
	if !stored {
		return 0, false
	}
	return m.offset(int64(place)), true
}

// Next implements image.BlockTable.
func (m blockMap) Next(number int64) int64 {
	_, stored := entry(m.raw, number)
	for number++; number < m.blocks; number++ {
		if _, other := entry(m.raw, number); other != stored {
			break
		}
	}
	return number
}
