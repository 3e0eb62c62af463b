package image

import (
	"io"
	"math"
	"math/bits"
	"slices"
)

// Blocks is a disk in blocks of one length, each of which is stored in one piece of the image or reads as zeros, as vdi, vhd
// and vhdx have it. It implements Mapper.
type Blocks struct {
	File
	// DiskBytes and BlockBytes are the lengths of the disk and of a block. The disk may end within a block.
	DiskBytes, BlockBytes int64
	Table                 BlockTable
}

// BlockTable says where an image stores the blocks of its disk. It is safe for concurrent use.
type BlockTable interface {
	// Find answers where in the image the block with the given number begins; false for one that isn't stored.
	Find(number int64) (offset int64, stored bool)
	// Next answers the number of the first block behind the given one of which Find answers the other boolean. It may lie
	// behind the disk's end.
	Next(number int64) int64
}

// Format implements Image.
func (b *Blocks) Format() Format { return b.File.Format }

// Size implements Image.
func (b *Blocks) Size() int64 { return b.DiskBytes }

// ReadAt implements Image.
func (b *Blocks) ReadAt(p []byte, offset int64) (int, error) {
	return ReadParts(p, offset, b.DiskBytes, b.readSome)
}

// readSome reads the disk at offset, up to the end of a block.
func (b *Blocks) readSome(p []byte, offset int64) (int, error) {
	within := offset % b.BlockBytes
	p = p[:min(int64(len(p)), b.BlockBytes-within)]
	at, stored := b.Table.Find(offset / b.BlockBytes)
	if !stored {
		clear(p)
		return len(p), nil
	}
	return len(p), b.ReadFull(p, at+within, "the data")
}

// Next implements Image.
func (b *Blocks) Next(offset int64) (Extent, error) {
	if offset < 0 || offset >= b.DiskBytes {
		return Extent{}, io.EOF
	}
	number := offset / b.BlockBytes
	_, stored := b.Table.Find(number)
	end := b.DiskBytes
	if next := b.Table.Next(number); next <= b.DiskBytes/b.BlockBytes {
		end = next * b.BlockBytes
	}
	return Extent{Start: offset, Len: end - offset, Zero: !stored}, nil
}

// Map implements Mapper.
func (b *Blocks) Map(offset int64) (Mapping, error) {
	x, err := b.Next(offset)
	if err != nil {
		return Mapping{}, err
	}
	m := Mapping{Start: x.Start, Len: x.Len, Present: true, Zero: x.Zero, Data: !x.Zero, Offset: NoOffset}
	if at, stored := b.Table.Find(offset / b.BlockBytes); stored {
		within := offset % b.BlockBytes
		m.Offset = at + within
		m.Len = min(m.Len, b.BlockBytes-within)
	}
	return m, nil
}

// blockList is a BlockTable of the blocks that are stored, a word for each: its number above its place, in the order of the
// disk.
type blockList[B ~uint64] struct {
	words      []uint64
	numberBits int
	offset     func(B) int64
}

// NewBlockList makes a BlockTable of the blocks that are stored, which have their number in their lowest bits, and any place
// in the image above it; offset says in bytes where that is.
func NewBlockList[B ~uint64](stored []B, numberBits int, offset func(B) int64) BlockTable {
	l := &blockList[B]{make([]uint64, len(stored)), numberBits, offset}
	for i, b := range stored {
		l.words[i] = bits.RotateLeft64(uint64(b), -numberBits)
	}
	slices.Sort(l.words)
	return l
}

// Find implements BlockTable.
func (l *blockList[B]) Find(number int64) (int64, bool) {
	i, stored := l.search(number)
	if !stored {
		return 0, false
	}
	return l.offset(B(bits.RotateLeft64(l.words[i], l.numberBits))), true
}

// Next implements BlockTable.
func (l *blockList[B]) Next(number int64) int64 {
	i, stored := l.search(number)
	switch {
	case stored:
		for number++; i+1 < len(l.words) && l.number(i+1) == number; number++ {
			i++
		}
		return number
	case i < len(l.words):
		return l.number(i)
	default:
		return math.MaxInt64
	}
}

// search answers the index of a block among those that are stored, or of the first behind it and false.
func (l *blockList[B]) search(number int64) (int, bool) {
	i, _ := slices.BinarySearch(l.words, uint64(number)<<(64-l.numberBits))
	return i, i < len(l.words) && l.number(i) == number
}

func (l *blockList[B]) number(i int) int64 { return int64(l.words[i] >> (64 - l.numberBits)) }
