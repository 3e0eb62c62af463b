// Package vdi reads VirtualBox's disk images, version 1.1, dynamic and static, after the header as QEMU documents it
// (block/vdi.c): anywhere (Open) or in one forward pass (Begin). Images of differences are refused; no other file is ever
// opened.
//
// The number of allocated blocks, the geometry and the flags are not read.
package vdi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"vmdisk.io/vmdisk/internal/image"
)

// Where the header's fields are.
const (
	atSignature  = 0x40
	atVersion    = 0x44
	atType       = 0x4c
	atMap        = 0x154
	atData       = 0x158
	atSectorSize = 0x168
	atDiskSize   = 0x170
	atBlockSize  = 0x178
	atExtra      = 0x17c
	atBlocks     = 0x180
	atLink       = 0x1a8
	atParent     = 0x1b8
	headerLen    = 0x1c8
)

const (
	signature = 0xbeda107f
	version   = 0x00010001
	sector    = image.SectorSize
	uuidLen   = 16

	// blockSize is the length of a block in bytes, in every image that VirtualBox or QEMU makes.
	blockSize = 1 << 20
	// entryLen is the length of the block map's entries in bytes.
	entryLen = 4
	// firstHole is the lowest block map entry of a block that isn't stored: discarded, or never written.
	firstHole = 0xfffffffe
)

// Image types.
const (
	typeDynamic = 1 + iota
	typeStatic
	typeUndo
	typeDifferences
)

// header is what reading a disk needs of an image's header.
type header struct {
	length  int64 // the image's, in bytes, or image.Unknown
	size    int64 // the disk's, in bytes
	blocks  int64 // that the disk's size needs
	entries int64 // of the block map; there is room for as many blocks
	table   int64 // where the block map lies, in bytes
	data    int64 // where the first stored block lies, in bytes
}

// parseHeader reads the header from the first bytes of an image of the given length in bytes, which may be image.Unknown,
// and refuses what can't be read. head is the whole image or at least image.HeadBytes of it.
func parseHeader(head []byte, length int64, limits image.Limits) (header, error) {
	if len(head) < headerLen {
		return header{}, image.Refuse(image.Truncated, "the vdi image ends within its header, after %d bytes", len(head))
	}
	le := binary.LittleEndian
	if le.Uint32(head[atSignature:]) != signature {
		return header{}, corrupt("it doesn't begin as one")
	}
	if v := le.Uint32(head[atVersion:]); v != version {
		return header{}, image.Refuse(image.UnsupportedFormat, "the vdi image has version %d.%d; version 1.1 is read", v>>16, v&0xffff)
	}
	if err := refuseKind(head); err != nil {
		return header{}, err
	}
	if n := le.Uint32(head[atSectorSize:]); n != sector {
		return header{}, image.Refuse(image.UnsupportedFormat, "the vdi image has sectors of %d bytes; %d are read", n, sector)
	}
	if n, extra := le.Uint32(head[atBlockSize:]), le.Uint32(head[atExtra:]); n != blockSize || extra != 0 {
		return header{}, image.Refuse(image.UnsupportedFormat, "the vdi image has blocks of %d bytes with %d more; %d and 0 are read: convert it with 'qemu-img convert -O qcow2 IN OUT' or VirtualBox's own clone, and serve that", n, extra, blockSize)
	}
	h, err := parseDisk(head, limits.WithDefaults())
	h.length = length
	return h, err
}

// refuseKind refuses images that are only a part of a disk.
func refuseKind(head []byte) error {
	if isPart(head) {
		return image.Refuse(image.BackingFile, "the vdi image holds only its differences to another image, {%s}, which is never opened: "+
			"join them with 'VBoxManage clonemedium' and serve that", uuid(head[atLink:]))
	}
	if kind := binary.LittleEndian.Uint32(head[atType:]); kind != typeDynamic && kind != typeStatic {
		return image.Refuse(image.UnsupportedFormat, "the vdi image has type %d; dynamic (%d) and static (%d) ones are read", kind, typeDynamic, typeStatic)
	}
	return nil
}

// isPart reports whether an image holds only differences to another one.
func isPart(head []byte) bool {
	switch binary.LittleEndian.Uint32(head[atType:]) {
	case typeUndo, typeDifferences:
		return true
	case typeDynamic, typeStatic:
		none := make([]byte, uuidLen)
		return !bytes.Equal(head[atLink:][:uuidLen], none) || !bytes.Equal(head[atParent:][:uuidLen], none)
	}
	return false
}

// uuid writes an identifier as VirtualBox shows it. The image has the first three of its parts with the low byte first.
func uuid(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

// parseDisk reads the disk's size and where things are.
func parseDisk(head []byte, limits image.Limits) (header, error) {
	le := binary.LittleEndian
	size := le.Uint64(head[atDiskSize:])
	if size > uint64(limits.DiskBytes) || size > math.MaxInt64-blockSize {
		return header{}, image.Refuse(image.TooLarge, "the disk in the vdi image has %d bytes, more than the %d bytes that are accepted", size, limits.DiskBytes)
	}
	h := header{
		size:    (int64(size) + sector - 1) / sector * sector, // VBoxManage convertfromraw makes odd sizes
		entries: int64(le.Uint32(head[atBlocks:])),
		table:   int64(le.Uint32(head[atMap:])),
		data:    int64(le.Uint32(head[atData:])),
	}
	h.blocks = (h.size + blockSize - 1) / blockSize
	if most := limits.TableBytes / entryLen; h.entries > most {
		return header{}, image.Refuse(image.TooLarge, "the vdi image has a map of %d blocks, more than the %d that are accepted: convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that", h.entries, most)
	}
	if h.entries < h.blocks {
		return header{}, corrupt("its map has %d blocks, and its disk needs %d", h.entries, h.blocks)
	}
	if h.blocks > 0 && (h.table < sector || h.table%sector != 0) {
		return header{}, corrupt("its block map lies at offset %d", h.table)
	}
	if h.blocks > 0 && (h.data < h.table+h.entries*entryLen || h.data%sector != 0) {
		return header{}, corrupt("its data lies at offset %d, and its block map of %d bytes at %d", h.data, h.entries*entryLen, h.table)
	}
	return h, nil
}

func corrupt(format string, args ...any) error { return image.Corrupt(image.VDI, format, args...) }

func truncated(what string, offset, n int64) error { return image.CutOff(image.VDI, what, offset, n) }
