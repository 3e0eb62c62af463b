// Package vmdk reads VMware's sparse disks that are one file, after VMware's "Virtual Disk Format 5.0": monolithicSparse
// and streamOptimized, the latter as QEMU writes it (tables first) and as VMware does (markers, tables and a footer
// behind the data): anywhere (Open) or in one forward pass (Begin). Kinds whose data lies in other files are refused with
// those files' names; none of them is ever opened.
//
// The redundant grain directory, the unclean shutdown mark and the disk's geometry are not read.
package vmdk

import (
	"encoding/binary"
	"math"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	magic      = "KDMV"
	magicESX   = "COWD"
	headerLen  = 512
	sector     = image.SectorSize
	maxVersion = 3

	maxGrain   = 2 << 20 // bytes; VMware's own are 64 KiB
	maxEntries = 512     // of a grain table, in every version
)

// Flags ("Hosted Sparse Extent Header").
const (
	flagNewlines   = 1 << 0
	flagZeroGrains = 1 << 2
	flagCompressed = 1 << 16
	flagMarkers    = 1 << 17
)

// atEnd is the grain directory's place in a header whose footer knows it.
const atEnd = math.MaxUint64

// zeroGrain is the grain table entry of a grain of zeros, where the header's flag says that there are such.
const zeroGrain = 1

// header is what reading a disk needs of an image's header.
type header struct {
	size       int64 // the disk's, in bytes
	grain      int64 // in bytes, a power of two
	perTable   int64 // entries of a grain table
	tables     int64 // entries of the grain directory that the disk's size needs
	directory  int64 // where it lies, in bytes; -1 if the footer knows
	overhead   int64 // in bytes: what lies before is said to be metadata
	descriptor int64 // where its embedded descriptor ends, in bytes
	compressed bool  // with a marker before each grain
	zeroGrains bool
}

// tableLen is the length of a grain table in bytes.
func (h header) tableLen() int { return int(h.perTable) * 4 }

// covers is how many bytes of the disk a grain table maps.
func (h header) covers() int64 { return h.perTable * h.grain }

// grainLen is how many bytes of the disk lie in the grain that begins at guest.
func (h header) grainLen(guest int64) int { return int(min(h.grain, h.size-guest)) }

// maxStored is the longest stored form of a compressed grain, in bytes.
func (h header) maxStored() int64 { return 2*h.grain + 1024 }

// parseBeginning reads the header and the embedded descriptor from the first bytes of an image and refuses what can't be
// read. head is the whole image or at least image.HeadBytes of it.
func parseBeginning(head []byte, limits image.Limits) (header, error) {
	if err := refuseOthers(head); err != nil {
		return header{}, err
	}
	if len(head) < headerLen {
		return header{}, image.Refuse(image.Truncated, "the vmdk image ends within its header, after %d bytes", len(head))
	}
	if err := refuseVersion(head); err != nil {
		return header{}, err
	}
	end, err := embedded(head)
	if err != nil {
		return header{}, err
	}
	h, err := parseHeader(head, limits)
	h.descriptor = end
	return h, err
}

// refuseOthers refuses what is called vmdk and isn't a hosted sparse extent.
func refuseOthers(head []byte) error {
	switch {
	case len(head) >= 4 && string(head[:4]) == magic:
		return nil
	case isDescriptor(head):
		return refuseDescriptor(parseDescriptor(head))
	case len(head) >= 4 && string(head[:4]) == magicESX:
		return image.Refuse(image.UnsupportedFormat, "the vmdk image is an ESX sparse extent (COWD), as snapshots on ESX are, which this version doesn't read: export the machine as OVF, or convert the disk with 'qemu-img convert -O qcow2 DISK.vmdk OUT', and serve that")
	default:
		return corrupt("it doesn't begin as one")
	}
}

// refuseVersion refuses headers of another layout, and those whose bytes a transfer as text has changed.
func refuseVersion(head []byte) error {
	if v := binary.LittleEndian.Uint32(head[4:]); v < 1 || v > maxVersion {
		return image.Refuse(image.UnsupportedFormat, "the vmdk image has version %d; versions 1 to %d are read", v, maxVersion)
	}
	if flags(head)&flagNewlines != 0 && string(head[73:77]) != "\n \r\n" {
		return corrupt("the line ends in its header were changed, as a transfer as text does: transfer it as binary")
	}
	return nil
}

func flags(head []byte) uint32 { return binary.LittleEndian.Uint32(head[8:]) }

// parseHeader reads a header, or the footer, which is one too.
func parseHeader(head []byte, limits image.Limits) (header, error) {
	le := binary.LittleEndian
	limits = limits.WithDefaults()
	h := header{perTable: int64(le.Uint32(head[44:])), zeroGrains: flags(head)&flagZeroGrains != 0}
	if err := h.parseCompression(flags(head), le.Uint16(head[77:])); err != nil {
		return header{}, err
	}
	grain := le.Uint64(head[20:])
	if grain == 0 || grain > maxGrain/sector || grain&(grain-1) != 0 {
		return header{}, corrupt("its grains have %d sectors; powers of two up to %d are possible", grain, maxGrain/sector)
	}
	h.grain = int64(grain) * sector
	if h.perTable < 1 || h.perTable > maxEntries {
		return header{}, corrupt("its grain tables have %d entries; 1 to %d are possible", h.perTable, maxEntries)
	}
	capacity := le.Uint64(head[12:])
	if capacity > uint64(limits.DiskBytes/sector) {
		return header{}, image.Refuse(image.TooLarge, "the disk in the vmdk image has %d sectors, more than the %d that are accepted", capacity, limits.DiskBytes/sector)
	}
	h.size = int64(capacity) * sector
	h.tables = (h.size + h.covers() - 1) / h.covers()
	if most := limits.TableBytes / 16; h.tables > most {
		return header{}, image.Refuse(image.TooLarge, "the vmdk image needs %d grain tables, more than the %d that are accepted: rewrite it with 'qemu-img convert -O qcow2 IN OUT'", h.tables, most)
	}
	return h, h.parsePlaces(head)
}

// parseCompression reads whether grains are compressed, which two fields must say alike.
func (h *header) parseCompression(flags uint32, algorithm uint16) error {
	h.compressed = flags&flagCompressed != 0
	switch {
	case algorithm > 1:
		return image.Refuse(image.UnsupportedFormat, "the vmdk image has compression algorithm %d; none (0) and deflate (1) are read", algorithm)
	case h.compressed != (algorithm == 1):
		return corrupt("its compression algorithm is %d, which contradicts its flags", algorithm)
	case h.compressed != (flags&flagMarkers != 0):
		return image.Refuse(image.UnsupportedFormat, "the vmdk image has compressed grains without markers, or markers without compressed grains, which no known program writes: convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that")
	}
	return nil
}

// parsePlaces reads where things are.
func (h *header) parsePlaces(head []byte) error {
	le := binary.LittleEndian
	h.overhead = int64(min(le.Uint64(head[64:]), math.MaxInt64/2/sector)) * sector
	switch directory := le.Uint64(head[56:]); {
	case directory == atEnd:
		h.directory = -1
		if !h.compressed {
			return corrupt("its grain directory is said to lie at its end, and it has no markers")
		}
	case directory == 0 && h.tables > 0, directory > math.MaxInt64/2/sector:
		return corrupt("its grain directory lies at sector %d", directory)
	default:
		h.directory = int64(directory) * sector
	}
	return nil
}

func corrupt(format string, args ...any) error { return image.Corrupt(image.VMDK, format, args...) }

func truncated(what string, offset, n int64) error { return image.CutOff(image.VMDK, what, offset, n) }
