package vhdx

import (
	"fmt"
	"io"
	"math/bits"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// view is an image that is read anywhere.
type view struct {
	file
	header
	present []place // in the order of the disk
}

// place is a block with its number above its offset. Places sort by their place on the disk.
type place uint64

func (p place) block() block  { return block(bits.RotateLeft64(uint64(p), numberBits)) }
func (b block) place() place  { return place(bits.RotateLeft64(uint64(b), -numberBits)) }
func (p place) number() int64 { return p.block().number() }

// Open reads the header section, the metadata and the block allocation table of the image of the given length in bytes.
// It answers an *image.Refused for an image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	v := &view{file: file{image.File{R: r, Length: length, Format: image.VHDX}}}
	var err error
	if v.header, err = readHeader(v.file, limits); err != nil {
		return nil, err
	}
	if n := v.tableLen(); v.bat.offset > length-n {
		return nil, truncated("its block allocation table", v.bat.offset, n)
	}
	present, err := v.readTable(v.file)
	if err != nil {
		return nil, err
	}
	v.present = make([]place, len(present))
	for i, b := range present {
		if end := b.offset() + v.stored(b); end > length {
			return nil, truncated(fmt.Sprintf("block %d of its disk", b.number()), b.offset(), v.stored(b))
		}
		v.present[i] = b.place()
	}
	slices.Sort(v.present)
	return v, nil
}

// file is the reader of an image that can be read anywhere.
type file struct{ image.File }

// read implements reader.
func (f file) read(p []byte, offset int64, what string) error { return f.ReadFull(p, offset, what) }

// done implements reader.
func (file) done(int64, int64) {}

// Format implements image.Image.
func (v *view) Format() image.Format { return image.VHDX }

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
	return len(p), v.ReadFull(p, v.present[i].block().offset()+within, "the data")
}

// find answers the index of a block among those that are present, or of the first behind it and false.
func (v *view) find(number int64) (int, bool) {
	i, _ := slices.BinarySearch(v.present, place(number)<<offsetBits)
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
