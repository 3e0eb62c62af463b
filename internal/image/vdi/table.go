package vdi

import (
	"encoding/binary"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
)

// offset is where in the image the block lies that is stored at the given place, which an entry of the block map names.
func (h header) offset(place int64) int64 { return h.data + place*blockSize }

// stored is how many bytes of the block with the given number belong to the disk, which may end within it.
func (h header) stored(number int64) int64 { return min(blockSize, h.size-number*blockSize) }

// entry reads an entry of the block map; ok is false for a hole.
func entry(b []byte, i int64) (e uint32, ok bool) {
	e = binary.LittleEndian.Uint32(b[i*entryLen:])
	return e, e < firstHole
}

// mapStep is how many entries of the block map are read at a time.
const mapStep = 64 << 10

// eachBlock reads the block map and calls add with the blocks that are stored, in the order of the disk. It refuses blocks
// that lie where another one is, or behind the image. read answers n bytes of the image at offset, or fewer where it ends.
func (h header) eachBlock(read func(offset int64, n int) ([]byte, error), add func(entry uint32, number int64) error) error {
	taken := make([]uint64, (h.entries+63)/64) // a bit for each place
	for first := int64(0); first < h.blocks; first += mapStep {
		n := int(min(mapStep, h.blocks-first) * entryLen)
		b, err := read(h.table+first*entryLen, n)
		if err != nil {
			return err
		}
		if len(b) < n {
			return truncated("its block map", h.table, h.blocks*entryLen)
		}
		for i := range int64(n / entryLen) {
			e, ok := entry(b, i)
			if !ok {
				continue
			}
			if err := h.checkPlace(taken, int64(e), first+i); err != nil {
				return err
			}
			if err := add(e, first+i); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPlace takes a place for the block with the given number.
func (h header) checkPlace(taken []uint64, place, number int64) error {
	if place >= h.entries {
		return corrupt("block %d of its disk is stored as number %d of %d", number, place, h.entries)
	}
	word, bit := place/64, uint64(1)<<(place%64)
	if taken[word]&bit != 0 {
		return corrupt("block %d of its disk lies at offset %d, where another one is", number, h.offset(place))
	}
	taken[word] |= bit
	if n := h.stored(number); h.length != image.Unknown && h.offset(place)+n > h.length {
		return truncated(fmt.Sprintf("block %d of its disk", number), h.offset(place), n)
	}
	return nil
}
