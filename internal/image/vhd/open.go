package vhd

import (
	"io"
	"math/bits"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// view is a dynamic image that is read anywhere.
type view struct {
	image.File
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
	v := &view{File: image.File{R: r, Length: length, Format: image.VHD}}
	head, err := v.Head()
	if err != nil {
		return nil, err
	}
	if v.header, err = parseHeader(head, length, limits); err != nil {
		return nil, err
	}
	present, err := v.readTable(v.ReadFull)
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

// Format implements image.Image.
func (v *view) Format() image.Format { return image.VHD }

// Size implements image.Image.
func (v *view) Size() int64 { return v.size }

// ReadAt implements image.Image.
func (v *view) ReadAt(p []byte, offset int64) (int, error) {
	return image.ReadParts(p, offset, v.size, v.readSome)
}

// readSome reads the disk at offset, up to the end of a block.
func (v *view) readSome(p []byte, offset int64) (int, error) {
	within := offset % v.blockSize
	p = p[:min(int64(len(p)), v.blockSize-within)]
	i, ok := v.find(offset / v.blockSize)
	if !ok {
		clear(p)
		return len(p), nil
	}
	return len(p), v.ReadFull(p, v.data(v.present[i].block()).offset+within, "the data")
}

// find answers the index of a block among those that are stored, or of the first behind it and false.
func (v *view) find(number int64) (int, bool) {
	i, _ := slices.BinarySearch(v.present, place(number)<<32)
	return i, i < len(v.present) && v.present[i].number() == number
}

// Map implements image.Mapper.
func (v *view) Map(offset int64) (image.Mapping, error) {
	x, err := v.Next(offset)
	if err != nil {
		return image.Mapping{}, err
	}
	m := image.Mapping{Start: x.Start, Len: x.Len, Present: true, Zero: x.Zero, Data: !x.Zero, Offset: image.NoOffset}
	if i, ok := v.find(offset / v.blockSize); ok {
		within := offset % v.blockSize
		m.Offset = v.data(v.present[i].block()).offset + within
		m.Len = min(m.Len, v.blockSize-within)
	}
	return m, nil
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
