// Package qcow2 reads QEMU's copy-on-write images, versions 2 and 3, after the format's specification (QEMU,
// docs/interop/qcow2): anywhere (Open) or in one forward pass (Begin). Both read the active state of the disk, refuse
// the same images, and never look outside the image. It also writes them (Writer).
//
// When an image is read, refcounts are not: they say what may be written, not what is stored. Internal snapshots, bitmaps and the dirty
// bit are ignored for the same reason.
package qcow2

import (
	"encoding/binary"
	"fmt"
	"math"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	magic       = 0x514649fb // "QFI" and 0xfb
	v2HeaderLen = 72
	v3HeaderLen = 104

	minClusterBits = 9
	maxClusterBits = 21 // QEMU's own limit
	minExtendedL2  = 14 // 32 subclusters of a sector

	maxNameLen = 1023 // of a backing file
)

// Incompatible feature bits ("Header", byte 72).
const (
	featureDirty = 1 << iota
	featureCorrupt
	featureDataFile
	featureCompression
	featureExtendedL2

	featuresKnown = featureExtendedL2<<1 - 1
)

// Compression types ("Additional fields", byte 104).
const (
	compressionDeflate = iota
	compressionZstd
)

// header is what reading a disk needs of an image's header.
type header struct {
	clusterBits uint
	size        int64 // the disk's, in bytes
	l1Offset    int64
	l1Entries   int  // those that the disk's size needs
	snapshots   bool // there are internal ones
	extendedL2  bool
	zeroFlag    bool // version 3: an L2 entry can say "zero"
	compression image.Encoding
}

func (h header) clusterSize() int64 { return 1 << h.clusterBits }

// l2EntrySize is the length of an L2 entry in bytes.
func (h header) l2EntrySize() int64 {
	if h.extendedL2 {
		return 16
	}
	return 8
}

// l2Entries is how many entries an L2 table, which is a cluster long, has.
func (h header) l2Entries() int64 { return h.clusterSize() / h.l2EntrySize() }

// l2Covers is how many bytes of the disk an L2 table maps.
func (h header) l2Covers() int64 { return h.l2Entries() * h.clusterSize() }

// parseHeader reads the header from the first bytes of an image and refuses what can't be read. head is the whole
// image or at least image.HeadBytes of it.
func parseHeader(head []byte, limits image.Limits) (header, error) {
	if len(head) < v2HeaderLen {
		return header{}, image.Refuse(image.Truncated, "the qcow2 image ends within its header, after %d bytes", len(head))
	}
	be := binary.BigEndian
	if be.Uint32(head) != magic {
		return header{}, corrupt("it doesn't begin as one")
	}
	version := be.Uint32(head[4:])
	if version != 2 && version != 3 {
		return header{}, image.Refuse(image.UnsupportedFormat, "the qcow2 image has version %d; versions 2 and 3 are read", version)
	}
	h := header{clusterBits: uint(be.Uint32(head[20:])), snapshots: be.Uint32(head[60:]) != 0, zeroFlag: version == 3, compression: image.Deflate}
	if h.clusterBits < minClusterBits || h.clusterBits > maxClusterBits {
		return header{}, corrupt("its clusters have 2^%d bytes; 2^%d to 2^%d are possible", h.clusterBits, minClusterBits, maxClusterBits)
	}
	if version == 3 {
		if err := h.parseV3(head); err != nil {
			return header{}, err
		}
	}
	if err := refuseReferences(head); err != nil {
		return header{}, err
	}
	if err := h.parseDisk(head, limits); err != nil {
		return header{}, err
	}
	return h, nil
}

// parseV3 reads the fields that version 3 added.
func (h *header) parseV3(head []byte) error {
	be := binary.BigEndian
	if len(head) < v3HeaderLen {
		return image.Refuse(image.Truncated, "the qcow2 image ends within its header, after %d bytes", len(head))
	}
	headerLen := be.Uint32(head[100:])
	if headerLen < v3HeaderLen || int64(headerLen) > h.clusterSize() {
		return corrupt("its header says that it is %d bytes long", headerLen)
	}
	features := be.Uint64(head[72:])
	if unknown := features &^ featuresKnown; unknown != 0 {
		return refuseFeatures(unknown, featureNames(head, headerLen))
	}
	if features&featureCorrupt != 0 {
		return image.Refuse(image.CorruptImage, "the qcow2 image is marked as corrupt: mend it with 'qemu-img check -r all' and serve it again")
	}
	if features&featureDataFile != 0 {
		return refuseDataFile(head, headerLen)
	}
	h.extendedL2 = features&featureExtendedL2 != 0
	if h.extendedL2 && h.clusterBits < minExtendedL2 {
		return corrupt("it has subclusters, and clusters of 2^%d bytes, which are too small for them", h.clusterBits)
	}
	return h.parseCompression(head, headerLen, features)
}

// parseCompression reads the additional field "compression type", which exists when the header is long enough.
func (h *header) parseCompression(head []byte, headerLen uint32, features uint64) error {
	kind := byte(compressionDeflate)
	if headerLen > v3HeaderLen && len(head) > v3HeaderLen {
		kind = head[v3HeaderLen]
	}
	if (kind != compressionDeflate) != (features&featureCompression != 0) {
		return corrupt("its compression type is %d, which contradicts its feature bits", kind)
	}
	switch kind {
	case compressionDeflate:
		h.compression = image.Deflate
	case compressionZstd:
		h.compression = image.Zstd
	default:
		return image.Refuse(image.UnsupportedFormat, "the qcow2 image has compression type %d, which is not served by this version; zlib (0) and zstd (1) are", kind)
	}
	return nil
}

// refuseReferences refuses what an image can't be read without: another file, or a key.
func refuseReferences(head []byte) error {
	be := binary.BigEndian
	if offset := be.Uint64(head[8:]); offset != 0 {
		return image.Refuse(image.BackingFile, "the qcow2 image holds only its differences to a backing file, %s, which is never opened: flatten it with 'qemu-img convert -O qcow2 IN OUT' and serve that", backingName(head, offset))
	}
	switch method := be.Uint32(head[32:]); method {
	case 0:
		return nil
	case 1, 2:
		return image.Refuse(image.Encrypted, "the qcow2 image is encrypted (%s): decrypt it with 'qemu-img convert' and serve that", [...]string{1: "AES", 2: "LUKS"}[method])
	default:
		return corrupt("its encryption method is %d, which doesn't exist", method)
	}
}

// backingName is the backing file's name, quoted, as far as it lies within the bytes at hand.
func backingName(head []byte, offset uint64) string {
	n := uint64(binary.BigEndian.Uint32(head[16:]))
	if n > maxNameLen || offset > uint64(len(head)) || offset+n > uint64(len(head)) {
		return "whose name is not where it should be"
	}
	return fmt.Sprintf("%q", head[offset:offset+n])
}

// parseDisk reads the disk's size and where its L1 table is, and compares both with the limits.
func (h *header) parseDisk(head []byte, limits image.Limits) error {
	be := binary.BigEndian
	limits = limits.WithDefaults()
	size := be.Uint64(head[24:])
	if size > math.MaxInt64-uint64(h.l2Covers()) {
		return corrupt("its disk has %d bytes", size)
	}
	if int64(size) > limits.DiskBytes {
		return image.Refuse(image.TooLarge, "the disk in the qcow2 image has %d bytes, more than the %d bytes that are accepted", size, limits.DiskBytes)
	}
	h.size = int64(size)
	need := (h.size + h.l2Covers() - 1) / h.l2Covers()
	if most := min(limits.TableBytes/8, 1<<numberBits); need > most {
		return image.Refuse(image.TooLarge, "the qcow2 image needs an L1 table of %d entries, more than the %d that are accepted: make it with larger clusters ('qemu-img convert -O qcow2 -o cluster_size=64k IN OUT')", need, most)
	}
	if have := int64(be.Uint32(head[36:])); have < need {
		return corrupt("its L1 table has %d entries, and its disk needs %d", have, need)
	}
	h.l1Entries = int(need)
	offset := be.Uint64(head[40:])
	if need > 0 && (offset%uint64(h.clusterSize()) != 0 || offset == 0 || offset > math.MaxInt64-uint64(need*8)) {
		return corrupt("its L1 table lies at offset %d", offset)
	}
	h.l1Offset = int64(offset)
	return nil
}

func corrupt(format string, args ...any) error { return image.Corrupt(image.QCOW2, format, args...) }

func truncated(what string, offset, n int64) error { return image.CutOff(image.QCOW2, what, offset, n) }
