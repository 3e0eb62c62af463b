package vmdk

import (
	"cmp"
	"encoding/binary"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/codec"
)

// table is a grain table.
type table struct {
	sector uint32 // where it lies
	number uint32 // which part of the disk it maps
}

func (t table) offset() int64 { return int64(t.sector) * sector }

// sortedTables are the grain tables that a grain directory names, in the order of the image. None may stand for two parts of
// the disk: no program writes that, and a small image could have any number of look-ups made by it.
func sortedTables(directory []byte) ([]table, error) {
	var tables []table
	for i := range len(directory) / 4 {
		if at := binary.LittleEndian.Uint32(directory[i*4:]); at != 0 {
			tables = append(tables, table{at, uint32(i)})
		}
	}
	slices.SortFunc(tables, func(a, b table) int {
		return cmp.Or(cmp.Compare(a.sector, b.sector), cmp.Compare(a.number, b.number))
	})
	for i := 1; i < len(tables); i++ {
		if tables[i].sector == tables[i-1].sector {
			return nil, corrupt("the grain table at sector %d stands for two parts of its disk", tables[i].sector)
		}
	}
	return tables, nil
}

// entry reads a grain table's entry: the sector where the grain lies, or 0 for a grain of zeros.
func (h header) entry(b []byte, i int64) uint32 {
	e := binary.LittleEndian.Uint32(b[i*4:])
	if h.zeroGrains && e == zeroGrain {
		return 0
	}
	return e
}

// entries is how many entries of the table with the given number lie within the disk.
func (h header) entries(number int64) int64 {
	return min(h.perTable, (h.size-number*h.covers()+h.grain-1)/h.grain)
}

// Marker types ("Stream-Optimized Compressed Sparse Extents").
const (
	markEnd = iota
	markTable
	markDirectory
	markFooter
)

// grainMarker is the length of a marker before a compressed grain; other markers fill their sector.
const grainMarker = 12

// marker is what stands before a compressed grain or a table.
type marker struct {
	value uint64 // of a grain: its first sector on the disk; of a table: its sectors
	size  uint32 // of a grain's stored form in bytes; 0 for other markers
	kind  uint32 // of other markers
}

func parseMarker(b []byte) marker {
	le := binary.LittleEndian
	return marker{value: le.Uint64(b), size: le.Uint32(b[8:]), kind: le.Uint32(b[grainMarker:])}
}

// checkGrain compares the marker of the grain at guest of the disk with what is possible.
func (h header) checkGrain(m marker, guest int64) error {
	if m.size == 0 || int64(m.size) > h.maxStored() {
		return corrupt("the compressed grain at %d of the disk has %d stored bytes", guest, m.size)
	}
	if m.value != uint64(guest/sector) {
		return corrupt("the compressed grain at %d of the disk says that it belongs to sector %d", guest, m.value)
	}
	return nil
}

// compressedPiece is what a compressed grain gives to the disk, and its stored form without what the decoder doesn't
// want. Programs differ in whether the last grain goes on behind the disk's end; its checksum is not looked at then.
func (h header) compressedPiece(guest int64, stored []byte) (image.Piece, []byte, error) {
	n := h.grainLen(guest)
	p := image.Piece{Offset: guest, Len: n, Full: n, Encoding: image.Zlib}
	if int64(n) == h.grain {
		return p, stored, nil
	}
	if !codec.IsZlib(stored) {
		return p, nil, corrupt("the compressed grain at %d of the disk is not a zlib stream", guest)
	}
	p.Encoding = image.Deflate
	return p, stored[codec.ZlibHeader:], nil
}
