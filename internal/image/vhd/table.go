package vhd

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// block is where a block of the disk lies in the image: the sector there, above the block's number. Blocks sort by their
// place in the image. It is small, since many are remembered.
type block uint64

const numberBits = 32

func (b block) number() int64 { return int64(b & (1<<numberBits - 1)) }
func (b block) offset() int64 { return int64(b>>numberBits) * sector }

// stored is how many bytes of a block belong to the disk, which may end within it.
func (h header) stored(b block) int64 {
	return min(h.blockSize, h.size-b.number()*h.blockSize)
}

// data is where these bytes lie in the image.
func (h header) data(b block) area { return area{b.offset() + h.bitmapLen(), h.stored(b)} }

// tableChunk is how much of the block allocation table is read at a time, in bytes.
const tableChunk = 256 << 10

// readTable reads the block allocation table ("Block Allocation Table and Data Blocks") and answers the blocks that are
// stored, in the order of the image. It refuses blocks that lie where something else is, or behind the image.
func (h header) readTable(read func(p []byte, offset int64, what string) error) ([]block, error) {
	var present []block
	buf := make([]byte, min(tableChunk, h.table.length))
	for at := int64(0); at < h.table.length; at += tableChunk {
		part := buf[:min(tableChunk, h.table.length-at)]
		if err := read(part, h.table.offset+at, "its block allocation table"); err != nil {
			return nil, err
		}
		for i := 0; i < len(part); i += 4 {
			if entry := binary.BigEndian.Uint32(part[i:]); entry != unused {
				present = append(present, block(uint64(entry)<<32|uint64(at/4)+uint64(i/4)))
			}
		}
	}
	slices.Sort(present)
	return present, h.checkPlaces(present)
}

// checkPlaces requires that no block lies where another one or one of the tables is.
func (h header) checkPlaces(present []block) error {
	length := h.bitmapLen() + h.blockSize
	end := int64(footerLen) // of the block before, or of the footer's copy
	for _, b := range present {
		a := area{b.offset(), length}
		if a.offset < end || overlap(a, h.place) || overlap(a, h.table) {
			return corrupt("block %d of its disk lies at offset %d, where something else is", b.number(), a.offset)
		}
		if data := h.data(b); h.isBehind(data) {
			return truncated(fmt.Sprintf("block %d of its disk", b.number()), data.offset, data.length)
		}
		end = a.end()
	}
	return nil
}

func overlap(a, b area) bool { return a.offset < b.end() && b.offset < a.end() }
