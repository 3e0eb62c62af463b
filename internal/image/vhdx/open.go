package vhdx

import (
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// Open reads the header section, the metadata and the block allocation table of the image of the given length in bytes.
// It answers an *image.Refused for an image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	f := file{image.File{R: r, Length: length, Format: image.VHDX}}
	h, err := readHeader(f, limits)
	if err != nil {
		return nil, err
	}
	if n := h.tableLen(); h.bat.offset > length-n {
		return nil, truncated("its block allocation table", h.bat.offset, n)
	}
	present, err := h.readTable(f)
	if err != nil {
		return nil, err
	}
	for _, b := range present {
		if end := b.offset() + h.stored(b); end > length {
			return nil, truncated(fmt.Sprintf("block %d of its disk", b.number()), b.offset(), h.stored(b))
		}
	}
	return &image.Blocks{File: f.File, DiskBytes: h.size, BlockBytes: h.blockSize, Table: image.NewBlockList(present, numberBits, block.offset)}, nil
}

// file is the reader of an image that can be read anywhere.
type file struct{ image.File }

// read implements reader.
func (f file) read(p []byte, offset int64, what string) error { return f.ReadFull(p, offset, what) }

// done implements reader.
func (file) done(int64, int64) {}
