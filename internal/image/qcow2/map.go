package qcow2

import (
	"encoding/binary"
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// Map implements image.Mapper. It reads the tables only. A mapping ends with its slice of an L2 table at the latest.
func (v *view) Map(offset int64) (image.Mapping, error) {
	if offset < 0 || offset >= v.size {
		return image.Mapping{}, io.EOF
	}
	table, _ := v.table(offset / v.l2Covers())
	if table == 0 {
		x, err := v.Next(offset) // a hole in the L1 table
		return image.Mapping{Start: x.Start, Len: x.Len, Zero: true, Offset: image.NoOffset}, err
	}
	guest := offset - offset%v.sliceCovers()
	raw := make([]byte, v.sliceCovers()/v.clusterSize()*v.l2EntrySize())
	if err := v.ReadFull(raw, table+guest%v.l2Covers()/v.clusterSize()*v.l2EntrySize(), "an L2 table"); err != nil {
		return image.Mapping{}, err
	}
	skip := (offset - guest) / v.clusterSize()
	guest, raw = guest+skip*v.clusterSize(), raw[skip*v.l2EntrySize():]
	var found image.Mapping
	for ; len(raw) > 0 && guest < v.size; guest, raw = guest+v.clusterSize(), raw[v.l2EntrySize():] {
		var bitmap uint64
		if v.extendedL2 {
			bitmap = binary.BigEndian.Uint64(raw[8:])
		}
		cells, err := v.cells(binary.BigEndian.Uint64(raw), bitmap, guest)
		if err != nil {
			return image.Mapping{}, err
		}
		for _, m := range cells {
			switch {
			case m.Start+m.Len <= offset || m.Start >= v.size:
			case found.Len == 0:
				found = m.from(offset, v.size)
			case !found.Extend(m.from(m.Start, v.size)):
				return found, nil
			}
		}
	}
	return found, nil
}

// cell is the mapping of a cluster or a subcluster.
type cell image.Mapping

// from is the part of a cell from offset on, cut at the disk's end.
func (c cell) from(offset, size int64) image.Mapping {
	if c.Offset != image.NoOffset {
		c.Offset += offset - c.Start
	}
	c.Len = min(c.Start+c.Len, size) - offset
	c.Start = offset
	return image.Mapping(c)
}

// cells reads an L2 entry ("Cluster mapping"): one cell, or one for each subcluster.
func (h header) cells(entry, bitmap uint64, guest int64) ([]cell, error) {
	whole := cell{Start: guest, Len: h.clusterSize(), Offset: image.NoOffset}
	if entry&flagCompressed != 0 {
		whole.Present, whole.Data, whole.Compressed = true, true, true
		return []cell{whole}, nil
	}
	if err := h.standard(entry, bitmap, guest, func(unit) error { return nil }); err != nil {
		return nil, err // what is wrong with it is wrong in every way of reading
	}
	if offset := int64(entry & offsetMask); offset != 0 {
		whole.Offset = offset
	}
	if !h.extendedL2 {
		whole.Zero = entry&flagZero != 0 || whole.Offset == image.NoOffset
		whole.Data = !whole.Zero
		whole.Present = entry&flagZero != 0 || whole.Data
		return []cell{whole}, nil
	}
	size := h.clusterSize() / subclusters
	cells := make([]cell, subclusters)
	for i := range cells {
		c := whole
		c.Start, c.Len = guest+int64(i)*size, size
		if c.Offset != image.NoOffset {
			c.Offset += int64(i) * size
		}
		zero := bitmap>>(subclusters+i)&1 != 0
		c.Data = bitmap>>i&1 != 0
		c.Zero = !c.Data
		c.Present = c.Data || zero
		cells[i] = c
	}
	return cells, nil
}
