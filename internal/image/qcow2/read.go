package qcow2

import (
	"fmt"
	"io"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// ReadAt implements image.Image.
func (v *view) ReadAt(p []byte, offset int64) (int, error) {
	return image.ReadParts(p, offset, v.size, v.readSome)
}

// readSome reads the disk at offset, up to the end of a unit or of a hole.
func (v *view) readSome(p []byte, offset int64) (int, error) {
	u, extent, err := v.find(offset)
	if err != nil {
		return 0, err
	}
	p = p[:min(int64(len(p)), extent.Start+extent.Len-offset)]
	if extent.Zero {
		clear(p)
		return len(p), nil
	}
	within := offset - u.guest
	if !u.compressed {
		return len(p), v.ReadFull(p, u.offset+within, "the data")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.decode(u); err != nil {
		return 0, err
	}
	copy(p, v.decoded[within:])
	return len(p), nil
}

// find answers the extent of the disk in which offset lies, and its unit unless it is a hole.
func (v *view) find(offset int64) (unit, image.Extent, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	units, err := v.slice(offset)
	if err != nil {
		return unit{}, image.Extent{}, err
	}
	start := offset - offset%v.sliceCovers()
	end := min(start+v.sliceCovers(), v.size)
	i, _ := slices.BinarySearchFunc(units, offset, func(u unit, offset int64) int {
		if v.guestEnd(u) <= offset {
			return -1
		}
		return 1 // the first unit that ends behind offset
	})
	if i > 0 {
		start = v.guestEnd(units[i-1])
	}
	if i == len(units) {
		return unit{}, image.Extent{Start: start, Len: end - start, Zero: true}, nil
	}
	u := units[i]
	if u.guest > offset {
		return unit{}, image.Extent{Start: start, Len: u.guest - start, Zero: true}, nil
	}
	return u, image.Extent{Start: u.guest, Len: v.guestEnd(u) - u.guest}, nil
}

// decode makes decoded the disk's bytes of the compressed unit u. It is called with mu held.
func (v *view) decode(u unit) error {
	if v.at == u.guest {
		return nil
	}
	v.at = -1
	if u.offset >= v.Length {
		return truncated("a compressed cluster", u.offset, int64(u.stored))
	}
	stored := make([]byte, min(int64(u.stored), v.Length-u.offset)) // the last sector need not be whole
	if err := v.ReadFull(stored, u.offset, "a compressed cluster"); err != nil {
		return err
	}
	if v.decoded == nil {
		v.decoded = make([]byte, v.clusterSize())
	}
	if err := v.decoder.Decode(v.decoded, v.compression, stored); err != nil {
		return corrupt("the compressed cluster at %d of the disk can't be decoded: %v", u.guest, err)
	}
	v.at = u.guest
	return nil
}

// Next implements image.Image.
func (v *view) Next(offset int64) (image.Extent, error) {
	if offset < 0 || offset >= v.size {
		return image.Extent{}, io.EOF
	}
	if table, next := v.table(offset / v.l2Covers()); table == 0 {
		return image.Extent{Start: offset, Len: min(next*v.l2Covers(), v.size) - offset, Zero: true}, nil
	}
	_, extent, err := v.find(offset)
	if err != nil {
		return image.Extent{}, fmt.Errorf("find what is stored at %d of the disk: %w", offset, err)
	}
	extent.Len -= offset - extent.Start
	extent.Start = offset
	return extent, nil
}
