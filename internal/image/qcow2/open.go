package qcow2

import (
	"cmp"
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
	tables tables // in the order of the disk

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
	v.tables = v.newTables()
	raw := make([]byte, min(n, l1Step))
	for at := int64(0); at < n; at += int64(len(raw)) {
		raw = raw[:min(int64(len(raw)), n-at)]
		if err := v.ReadFull(raw, v.l1Offset+at, "its L1 table"); err != nil {
			return err
		}
		if err := v.addTables(&v.tables, raw, at/8); err != nil {
			return err
		}
	}
	return v.sortTables()
}

// sortTables brings the L2 tables into the disk's order. They are all there, and none twice.
func (v *view) sortTables() error {
	l := v.tables.list
	slices.Sort(l)
	for i := range l {
		if at := v.tables.offset(i); at > v.Length-v.clusterSize() {
			return truncated("an L2 table", at, v.clusterSize())
		}
	}
	if err := v.tables.refuseShared(); err != nil {
		return err
	}
	slices.SortFunc(l, func(a, b l2Place) int { return cmp.Compare(a.number(), b.number()) })
	return nil
}

// table is where the L2 table with the given number lies, or 0 for none, and next is the number of the one behind it.
func (v *view) table(number int64) (offset, next int64) {
	i, there := slices.BinarySearchFunc(v.tables.list, number, func(p l2Place, number int64) int { return cmp.Compare(p.number(), number) })
	if there {
		offset = v.tables.offset(i)
		i++
	}
	if next = int64(v.l1Entries); i < v.tables.count() {
		next = v.tables.list[i].number()
	}
	return offset, next
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
	if table, _ := v.table(offset / v.l2Covers()); table != 0 {
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
