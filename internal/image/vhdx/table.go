package vhdx

import (
	"encoding/binary"
	"slices"
)

// States of a block (2.5.1.1). A block of the first four reads as zeros.
const (
	stateNotPresent = iota
	stateUndefined
	stateZero
	stateUnmapped
	statePresent          = 6
	statePartiallyPresent = 7

	stateMask = 7
)

// block is where a block of the disk lies in the image: the offset there in MiB, above the block's number. Blocks sort
// by their place in the image. It is small, since many are remembered.
type block uint64

const (
	numberBits = 26 // 64 TiB of blocks of 1 MiB
	offsetBits = 64 - numberBits
)

func (b block) number() int64 { return int64(b & (1<<numberBits - 1)) }
func (b block) offset() int64 { return int64(b>>numberBits) * mib }

// tableLen is the length of the block allocation table in bytes (2.5): an entry for each block, and one for a sector
// bitmap after each ratio of them.
func (h header) tableLen() int64 {
	if h.blocks == 0 {
		return 0
	}
	return (h.blocks + (h.blocks-1)/h.ratio) * 8
}

// stored is how many bytes of a block belong to the disk, which may end within it.
func (h header) stored(b block) int64 {
	return min(h.blockSize, h.size-b.number()*h.blockSize)
}

// readTable reads the block allocation table and answers the blocks that are present, in the order of the image. It
// refuses blocks that lie where something else is.
func (h header) readTable(r reader) ([]block, error) {
	var present []block
	buf := make([]byte, mib)
	n := h.tableLen()
	for at := int64(0); at < n; at += mib {
		part := buf[:min(mib, n-at)]
		if err := r.read(part, h.bat.offset+at, "its block allocation table"); err != nil {
			return nil, err
		}
		r.done(h.bat.offset+at, h.bat.offset+at+mib)
		for i := int64(0); i < int64(len(part)); i += 8 {
			index := (at + i) / 8
			chunk, within := index/(h.ratio+1), index%(h.ratio+1)
			if within == h.ratio {
				continue // a sector bitmap's
			}
			b, ok, err := parseEntry(binary.LittleEndian.Uint64(part[i:]), chunk*h.ratio+within)
			if err != nil {
				return nil, err
			}
			if ok {
				present = append(present, b)
			}
		}
	}
	slices.Sort(present)
	return present, h.checkPlaces(present)
}

// parseEntry reads a block's entry (2.5.1). It answers false for one that reads as zeros.
func parseEntry(entry uint64, number int64) (block, bool, error) {
	switch state := entry & stateMask; state {
	case stateNotPresent, stateUndefined, stateZero, stateUnmapped:
		return 0, false, nil
	case statePresent:
	case statePartiallyPresent:
		return 0, false, corrupt("block %d of its disk is said to be partly in a parent, and it has none", number)
	default:
		return 0, false, corrupt("block %d of its disk has the state %d, which doesn't exist", number, state)
	}
	offset := entry >> 20
	if offset == 0 || offset >= 1<<offsetBits {
		return 0, false, corrupt("block %d of its disk lies at %d MiB of the image", number, offset)
	}
	return block(offset<<numberBits | uint64(number)), true, nil
}

// checkPlaces requires that no block lies where another one or a region is.
func (h header) checkPlaces(present []block) error {
	taken := h.taken
	end := int64(0) // of the block before
	for _, b := range present {
		for len(taken) > 0 && taken[0].end() <= b.offset() {
			taken = taken[1:]
		}
		if b.offset() < end || len(taken) > 0 && taken[0].offset < b.offset()+h.blockSize {
			return corrupt("block %d of its disk lies at offset %d, where something else is", b.number(), b.offset())
		}
		end = b.offset() + h.blockSize
	}
	return nil
}
