package vdi

import (
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// view is an image that is read anywhere.
type view struct {
	r io.ReaderAt
	header
	places []byte // the block map
}

// Open reads the header and the block map of the image of the given length in bytes. It answers an *image.Refused for an
// image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	v := &view{r: r}
	head := make([]byte, max(0, min(length, image.HeadBytes)))
	err := v.read(head, 0, "its header")
	if err != nil {
		return nil, err
	}
	if v.header, err = parseHeader(head, length, limits); err != nil {
		return nil, err
	}
	if n := v.blocks * entryLen; n > 0 && v.table > length-n {
		return nil, truncated("its block map", v.table, n)
	}
	v.places = make([]byte, v.blocks*entryLen)
	if err := v.read(v.places, v.table, "its block map"); err != nil {
		return nil, err
	}
	inMemory := func(offset int64, n int) ([]byte, error) { return v.places[offset-v.table:][:n], nil }
	return v, v.eachBlock(inMemory, func(uint32, int64) error { return nil })
}

// read fills p from offset of the image, or refuses the image as truncated.
func (v *view) read(p []byte, offset int64, what string) error {
	if n, err := v.r.ReadAt(p, offset); n < len(p) {
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // a wrapped one is a failure
			return truncated(what, offset, int64(len(p)))
		}
		return fmt.Errorf("read %d bytes at offset %d of the vdi image: %w", len(p), offset, err)
	}
	return nil
}

// Format implements image.Image.
func (v *view) Format() image.Format { return image.VDI }

// Size implements image.Image.
func (v *view) Size() int64 { return v.size }

// ReadAt implements image.Image.
func (v *view) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read at offset %d of the disk: it must not be negative", offset)
	}
	done := 0
	for done < len(p) && offset < v.size {
		within := offset % blockSize
		part := p[done:][:min(int64(len(p)-done), blockSize-within, v.size-offset)]
		if e, ok := entry(v.places, offset/blockSize); !ok {
			clear(part)
		} else if err := v.read(part, v.offset(e)+within, "the data"); err != nil {
			return done, err
		}
		done += len(part)
		offset += int64(len(part))
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
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
