package vhd

import (
	"fmt"
	"io"
	"math/bits"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// view is a dynamic image that is read anywhere.
type view struct {
	r io.ReaderAt
	header
	present []place // in the order of the disk
}

// place is a block with its number above its sector. Places sort by their place on the disk.
type place uint64

func (p place) block() block  { return block(bits.RotateLeft64(uint64(p), 32)) }
func (b block) place() place  { return place(bits.RotateLeft64(uint64(b), 32)) }
func (p place) number() int64 { return p.block().number() }

// Open reads the header and the block allocation table of the dynamic image of the given length in bytes. It answers an
// *image.Refused for an image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	head := make([]byte, max(0, min(length, image.HeadBytes)))
	v := &view{r: r}
	err := v.read(head, 0, "its header")
	if err != nil {
		return nil, err
	}
	if v.header, err = parseHeader(head, length, limits); err != nil {
		return nil, err
	}
	present, err := v.readTable(v.read)
	if err != nil {
		return nil, err
	}
	v.present = make([]place, len(present))
	for i, b := range present {
		v.present[i] = b.place()
	}
	slices.Sort(v.present)
	return v, nil
}

// read fills p from offset of the image, or refuses the image as truncated.
func (v *view) read(p []byte, offset int64, what string) error {
	if n, err := v.r.ReadAt(p, offset); n < len(p) {
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // a wrapped one is a failure
			return truncated(what, offset, int64(len(p)))
		}
		return fmt.Errorf("read %d bytes at offset %d of the vhd image: %w", len(p), offset, err)
	}
	return nil
}

// Format implements image.Image.
func (v *view) Format() image.Format { return image.VHD }

// Size implements image.Image.
func (v *view) Size() int64 { return v.size }

// ReadAt implements image.Image.
func (v *view) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read at offset %d of the disk: it must not be negative", offset)
	}
	done := 0
	for done < len(p) && offset < v.size {
		within := offset % v.blockSize
		part := p[done:min(int64(len(p)), int64(done)+min(v.blockSize-within, v.size-offset))]
		if i, ok := v.find(offset / v.blockSize); !ok {
			clear(part)
		} else if err := v.read(part, v.data(v.present[i].block()).offset+within, "the data"); err != nil {
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

// find answers the index of a block among those that are stored, or of the first behind it and false.
func (v *view) find(number int64) (int, bool) {
	i, _ := slices.BinarySearch(v.present, place(number)<<32)
	return i, i < len(v.present) && v.present[i].number() == number
}

// Next implements image.Image.
func (v *view) Next(offset int64) (image.Extent, error) {
	if offset < 0 || offset >= v.size {
		return image.Extent{}, io.EOF
	}
	number := offset / v.blockSize
	i, data := v.find(number)
	end := v.blocks // where the run ends, in blocks
	switch {
	case data:
		for end = number + 1; i+1 < len(v.present) && v.present[i+1].number() == end; end++ {
			i++
		}
	case i < len(v.present):
		end = v.present[i].number()
	}
	return image.Extent{Start: offset, Len: min(end*v.blockSize, v.size) - offset, Zero: !data}, nil
}
