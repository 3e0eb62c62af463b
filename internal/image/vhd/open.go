package vhd

import (
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// Open reads the header and the block allocation table of the dynamic image of the given length in bytes. It answers an
// *image.Refused for an image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	f := image.File{R: r, Length: length, Format: image.VHD}
	head, err := f.Head()
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(head, length, limits)
	if err != nil {
		return nil, err
	}
	present, err := h.readTable(f.ReadFull)
	if err != nil {
		return nil, err
	}
	table := image.NewBlockList(present, numberBits, func(b block) int64 { return h.data(b).offset })
	return &image.Blocks{File: f, DiskBytes: h.size, BlockBytes: h.blockSize, Table: table}, nil
}
