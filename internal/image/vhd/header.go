package vhd

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	headerCookie = "cxsparse"
	headerLen    = 1024
	maxHeader    = image.HeadBytes - headerLen // where the header may lie; it follows the footer's copy

	maxBlock = 1 << 30
	unused   = 1<<32 - 1 // an entry of a block that isn't stored
)

// area is a part of the image, in bytes.
type area struct{ offset, length int64 }

func (a area) end() int64 { return a.offset + a.length }

// header is what reading a dynamic disk needs of its footer's copy and its header ("Dynamic Disk Header Format").
type header struct {
	length    int64 // the image's, in bytes, or image.Unknown
	size      int64 // the disk's, in bytes
	blockSize int64
	blocks    int64
	table     area // the block allocation table
	place     area // the header itself
}

// bitmapLen is the length of the sector bitmap before a block's data in bytes.
func (h header) bitmapLen() int64 { return (h.blockSize/sector/8 + sector - 1) / sector * sector }

// parseHeader reads the footer's copy and the header from the first bytes of an image of the given length in bytes, which
// may be image.Unknown, and refuses what can't be read. head is the whole image or at least image.HeadBytes of it.
func parseHeader(head []byte, length int64, limits image.Limits) (header, error) {
	f, b, err := parseBeginning(head)
	if err != nil {
		return header{}, err
	}
	if f.kind == typeDifferencing {
		parent := "whose name it doesn't hold"
		if name := parentName(b); name != "" {
			parent = strconv.Quote(name)
		}
		return header{}, refuseParent(parent)
	}
	h := header{length: length, place: area{int64(f.header), headerLen}}
	return h, h.setDisk(b, f.size, limits.WithDefaults())
}

// parseBeginning reads the footer's copy, of a dynamic or differencing image, and answers the bytes of the header too.
func parseBeginning(head []byte) (f footer, header []byte, err error) {
	if !bytes.HasPrefix(head, []byte(footerCookie)) {
		return f, nil, corrupt("it doesn't begin as one")
	}
	if len(head) < footerLen {
		return f, nil, truncated("the end of its footer's copy", 0, footerLen)
	}
	if f, err = parseFooter(head[:footerLen]); err != nil {
		return f, nil, err
	}
	if f.kind != typeDynamic && f.kind != typeDifferencing {
		return f, nil, corrupt("it begins as a dynamic one and says that its type is %d", f.kind)
	}
	if f.header < footerLen || f.header > maxHeader {
		return f, nil, corrupt("its header lies at offset %d", f.header)
	}
	if f.header+headerLen > uint64(len(head)) {
		return f, nil, truncated("its header", int64(f.header), headerLen)
	}
	header = head[f.header:][:headerLen]
	if !bytes.HasPrefix(header, []byte(headerCookie)) || checksum(header, 36) != binary.BigEndian.Uint32(header[36:]) {
		return f, nil, corrupt("its header is none, or the checksum doesn't fit")
	}
	return f, header, nil
}

// setDisk reads the header's fields and compares them with the disk's size in bytes and the limits.
func (h *header) setDisk(b []byte, size uint64, limits image.Limits) error {
	be := binary.BigEndian
	if version := be.Uint16(b[24:]); version != majorVersion {
		return image.Refuse(image.UnsupportedFormat, "the vhd image's header has version %d; version %d is read", version, majorVersion)
	}
	block := be.Uint32(b[32:])
	if block < sector || block > maxBlock || bits.OnesCount32(block) != 1 {
		return corrupt("its blocks have %d bytes; a power of two from %d to %d is possible", block, sector, maxBlock)
	}
	if size > 1<<62 || size%sector != 0 {
		return corrupt("its disk has %d bytes", size)
	}
	if int64(size) > limits.DiskBytes {
		return image.Refuse(image.TooLarge, "the disk in the vhd image has %d bytes, more than the %d bytes that are accepted", size, limits.DiskBytes)
	}
	h.size, h.blockSize = int64(size), int64(block)
	h.blocks = (h.size + h.blockSize - 1) / h.blockSize
	if accepted := limits.TableBytes / 8; h.blocks > accepted { // a block takes as much memory
		return image.Refuse(image.TooLarge, "the vhd image's disk has %d blocks, more than the %d that are accepted: convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that", h.blocks, accepted)
	}
	if have := int64(be.Uint32(b[28:])); have < h.blocks {
		return corrupt("its block allocation table has %d entries, and its disk needs %d", have, h.blocks)
	}
	offset := be.Uint64(b[16:])
	if offset > 1<<62 || offset%sector != 0 {
		return corrupt("its block allocation table lies at offset %d", offset)
	}
	h.table = area{int64(offset), 4 * h.blocks}
	if h.isBehind(h.table) {
		return truncated("its block allocation table", h.table.offset, h.table.length)
	}
	return nil
}

// isBehind reports whether an area is known to end behind the image.
func (h header) isBehind(a area) bool {
	return h.length >= 0 && a.length > 0 && a.end() > h.length
}

// parentName is the parent's name ("Parent Unicode Name"); empty where there is none.
func parentName(header []byte) string {
	var units []uint16
	for b := header[64:576]; len(b) > 0; b = b[2:] {
		unit := binary.BigEndian.Uint16(b)
		if unit == 0 {
			break
		}
		units = append(units, unit)
	}
	return string(utf16.Decode(units))
}
