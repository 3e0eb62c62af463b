package qcow2

import (
	"encoding/binary"
	"math/bits"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	offsetMask     = 0x00ff_ffff_ffff_fe00 // of L1 entries and standard L2 entries
	flagCompressed = 1 << 62
	flagZero       = 1

	subclusters = 32
	sector      = image.SectorSize
)

// unit is a run of the image that stands for a run of the disk. It is small, since many are remembered.
type unit struct {
	offset     int64 // in the image
	guest      int64 // on the disk
	stored     int32 // bytes in the image; a compressed unit's last sector may hold something else too
	compressed bool
}

func (u unit) end() int64 { return u.offset + int64(u.stored) }

// piece is what a unit gives to the disk. A compressed unit is a cluster, which the disk's end may cut.
func (h header) piece(u unit) image.Piece {
	if !u.compressed {
		return image.Piece{Offset: u.guest, Len: int(u.stored), Full: int(u.stored)}
	}
	return image.Piece{Offset: u.guest, Len: int(min(h.clusterSize(), h.size-u.guest)), Full: int(h.clusterSize()), Encoding: h.compression}
}

// guestEnd is where on the disk a unit's part ends.
func (h header) guestEnd(u unit) int64 {
	if !u.compressed {
		return u.guest + int64(u.stored)
	}
	return min(u.guest+h.clusterSize(), h.size)
}

// maxMerged is the length in bytes up to which neighbouring clusters become one unit.
const maxMerged = 1 << 20

// l2Offset reads an L1 entry: where the L2 table lies, or 0 for none.
func (h header) l2Offset(entry uint64) (int64, error) {
	offset := int64(entry & offsetMask)
	if offset%h.clusterSize() != 0 {
		return 0, corrupt("an L2 table lies at offset %d, within a cluster", offset)
	}
	if offset>>h.clusterBits >= farthest {
		return 0, corrupt("an L2 table lies at offset %d, where no file ends", offset)
	}
	return offset, nil
}

// parseL2 reads an L2 table or a part of one, which maps the disk from guest on, and hands its units to emit in the
// disk's order. The disk's end is respected. What no unit covers reads as zeros.
func (h header) parseL2(table []byte, guest int64, emit func(unit) error) error {
	var run unit // clusters that lie side by side, not handed out yet
	flush := func() error {
		if run.stored == 0 {
			return nil
		}
		u := run
		run = unit{}
		return emit(u)
	}
	add := func(u unit) error {
		if run.stored > 0 && u.offset == run.end() && u.guest == run.guest+int64(run.stored) && run.stored+u.stored <= maxMerged {
			run.stored += u.stored
			return nil
		}
		if err := flush(); err != nil {
			return err
		}
		run = u
		return nil
	}
	step := h.l2EntrySize()
	for ; int64(len(table)) >= step && guest < h.size; table = table[step:] {
		entry := binary.BigEndian.Uint64(table)
		var bitmap uint64
		if h.extendedL2 {
			bitmap = binary.BigEndian.Uint64(table[8:])
		}
		if entry&flagCompressed != 0 {
			if err := flush(); err != nil {
				return err
			}
			if err := emit(h.compressed(entry, guest)); err != nil {
				return err
			}
		} else if err := h.standard(entry, bitmap, guest, add); err != nil {
			return err
		}
		guest += h.clusterSize()
	}
	return flush()
}

// compressedOffsetBits is how many bits of a compressed cluster descriptor are the offset.
func (h header) compressedOffsetBits() uint { return 62 - (h.clusterBits - 8) }

// compressed reads a compressed cluster descriptor ("Compressed Clusters Descriptor").
func (h header) compressed(entry uint64, guest int64) unit {
	offsetBits := h.compressedOffsetBits()
	offset := int64(entry & (1<<offsetBits - 1))
	sectors := int64(entry&(flagCompressed-1)>>offsetBits) + 1
	return unit{offset: offset, guest: guest, stored: int32(sectors*sector - offset%sector), compressed: true}
}

// standard reads a standard cluster descriptor and, with extended L2 entries, its subcluster bitmap.
func (h header) standard(entry, bitmap uint64, guest int64, add func(unit) error) error {
	offset := int64(entry & offsetMask)
	if offset%h.clusterSize() != 0 {
		return corrupt("the cluster at %d of the disk lies at offset %d, within another cluster", guest, offset)
	}
	if h.extendedL2 {
		return h.subclusters(offset, bitmap, guest, add)
	}
	if entry&flagZero != 0 {
		if !h.zeroFlag {
			return corrupt("the cluster at %d of the disk is marked as zero, which version 2 doesn't know", guest)
		}
		return nil
	}
	if offset == 0 {
		return nil
	}
	return add(h.plain(offset, guest, h.clusterSize()))
}

// subclusters hands out the runs of a cluster's allocated subclusters ("Extended L2 Entries").
func (h header) subclusters(offset int64, bitmap uint64, guest int64, add func(unit) error) error {
	allocated, zero := uint32(bitmap), uint32(bitmap>>subclusters)
	if allocated&zero != 0 {
		return corrupt("a subcluster of the cluster at %d of the disk is both stored and zero", guest)
	}
	if offset == 0 && allocated != 0 {
		return corrupt("the cluster at %d of the disk has stored subclusters, and is not stored", guest)
	}
	size := h.clusterSize() / subclusters
	for first := 0; allocated != 0; {
		skip := bits.TrailingZeros32(allocated)
		first += skip
		allocated >>= skip
		n := bits.TrailingZeros32(^allocated)
		at := int64(first) * size
		if guest+at < h.size {
			if err := add(h.plain(offset+at, guest+at, int64(n)*size)); err != nil {
				return err
			}
		}
		first += n
		allocated >>= n // 0 where n is 32
	}
	return nil
}

// plain is the unit of n stored bytes, cut at the disk's end.
func (h header) plain(offset, guest, n int64) unit {
	return unit{offset: offset, guest: guest, stored: int32(min(n, h.size-guest))}
}
