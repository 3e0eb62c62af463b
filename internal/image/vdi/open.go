package vdi

import (
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// view is an image that is read anywhere.
type view struct {
	image.File
	header
	places []byte // the block map
}

// Open reads the header and the block map of the image of the given length in bytes. It answers an *image.Refused for an
// image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	v := &view{File: image.File{R: r, Length: length, Format: image.VDI}}
	head, err := v.Head()
	if err != nil {
		return nil, err
	}
	if v.header, err = parseHeader(head, length, limits); err != nil {
		return nil, err
	}
	n := v.blocks * entryLen
	if n > 0 && v.table > length-n { // before that many bytes are allocated
		return nil, truncated("its block map", v.table, n)
	}
	v.places = make([]byte, n)
	inMemory := func(offset int64, n int) ([]byte, error) {
		b := v.places[offset-v.table:][:n]
		return b, v.ReadFull(b, offset, "its block map")
	}
	return v, v.eachBlock(inMemory, func(uint32, int64) error { return nil })
}

// Format implements image.Image.
func (v *view) Format() image.Format { return image.VDI }

// Size implements image.Image.
func (v *view) Size() int64 { return v.size }

// ReadAt implements image.Image.
func (v *view) ReadAt(p []byte, offset int64) (int, error) {
	return image.ReadParts(p, offset, v.size, v.readSome)
}

// readSome reads the disk at offset, up to the end of a block.
func (v *view) readSome(p []byte, offset int64) (int, error) {
	within := offset % blockSize
	p = p[:min(int64(len(p)), blockSize-within)]
	e, ok := entry(v.places, offset/blockSize)
	if !ok {
		clear(p)
		return len(p), nil
	}
	return len(p), v.ReadFull(p, v.offset(int64(e))+within, "the data")
}

// Map implements image.Mapper.
func (v *view) Map(offset int64) (image.Mapping, error) {
	x, err := v.Next(offset)
	if err != nil {
		return image.Mapping{}, err
	}
	m := image.Mapping{Start: x.Start, Len: x.Len, Present: true, Zero: x.Zero, Data: !x.Zero, Offset: image.NoOffset}
	if e, ok := entry(v.places, offset/blockSize); ok {
		within := offset % blockSize
		m.Offset = v.offset(int64(e)) + within
		m.Len = min(m.Len, blockSize-within)
	}
	return m, nil
}

// Next implements image.Image.
func (v *view) Next(offset int64) (image.Extent, error) {
	if offset < 0 || offset >= v.size {
		return image.Extent{}, io.EOF
	}
	block := offset / blockSize
	_, stored := entry(v.places, block)
	for block++; block < v.blocks; block++ {
		if _, ok := entry(v.places, block); ok != stored {
			break
		}
	}
	return image.Extent{Start: offset, Len: min(block*blockSize, v.size) - offset, Zero: !stored}, nil
}
