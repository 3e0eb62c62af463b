package qcow2

import (
	"encoding/binary"
	"io"
	"slices"
	"sync"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/codec"
)

const (
	// sliceEntries is how many L2 entries are read and remembered at a time.
	sliceEntries = 256
	// cachedSlices is how many of those slices are remembered.
	cachedSlices = 32
)

// view is an image that is read anywhere. Reads of compressed clusters wait for each other.
type view struct {
	image.File
	header
	l1 []int64 // offset of each L2 table, 0 for none

	mu      sync.Mutex
	slices  map[int64][]unit // by the slice's number on the disk
	order   []int64          // of the slices, oldest first
	decoder codec.Decoder
	decoded []byte // the compressed cluster that was read last
	at      int64  // where it belongs on the disk; -1 for nowhere
}

// Open reads the header and the L1 table of the image of the given length in bytes. It answers an *image.Refused for an
// image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	file := image.File{R: r, Length: length, Format: image.QCOW2}
	head, err := file.Head()
	if err != nil {
		return nil, err
	}
	h, err := parseHeader(head, limits)
	if err != nil {
		return nil, err
	}
	v := &view{File: file, header: h, slices: map[int64][]unit{}, at: -1}
	if err := v.readL1(); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *view) readL1() error {
	n := int64(v.l1Entries) * 8
	if n == 0 {
		return nil
	}
	if v.l1Offset > v.Length-n { // before that many bytes are allocated
		return truncated("its L1 table", v.l1Offset, n)
	}
	v.l1 = make([]int64, 0, v.l1Entries)
	raw := make([]byte, min(n, l1Step))
	for at := int64(0); at < n; at += int64(len(raw)) {
		raw = raw[:min(int64(len(raw)), n-at)]
		if err := v.ReadFull(raw, v.l1Offset+at, "its L1 table"); err != nil {
			return err
		}
		for i := 0; i < len(raw); i += 8 {
			offset, err := v.l2Offset(binary.BigEndian.Uint64(raw[i:]))
			if err != nil {
				return err
			}
			v.l1 = append(v.l1, offset)
		}
	}
	sorted := slices.Clone(v.l1)
	slices.Sort(sorted)
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] && sorted[i] != 0 {
			return sharedTable(sorted[i])
		}
	}
	return nil
}

// Format implements image.Image.
func (v *view) Format() image.Format { return image.QCOW2 }

// Size implements image.Image.
func (v *view) Size() int64 { return v.size }

// sliceCovers is how many bytes of the disk a slice maps.
func (h header) sliceCovers() int64 { return min(sliceEntries, h.l2Entries()) * h.clusterSize() }

// slice answers the units of the slice that maps offset of the disk. It is called with mu held.
func (v *view) slice(offset int64) ([]unit, error) {
	number := offset / v.sliceCovers()
	if units, ok := v.slices[number]; ok {
		return units, nil
	}
	guest := number * v.sliceCovers()
	var units []unit
	if table := v.l1[offset/v.l2Covers()]; table != 0 {
		raw := make([]byte, v.sliceCovers()/v.clusterSize()*v.l2EntrySize())
		from := table + guest%v.l2Covers()/v.clusterSize()*v.l2EntrySize()
		if err := v.ReadFull(raw, from, "an L2 table"); err != nil {
			return nil, err
		}
		err := v.parseL2(raw, guest, func(u unit) error {
			units = append(units, u)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(v.order) >= cachedSlices {
		delete(v.slices, v.order[0])
		v.order = v.order[1:]
	}
	v.slices[number] = units
	v.order = append(v.order, number)
	return units, nil
}
