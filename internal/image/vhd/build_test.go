package vhd

import (
	"bytes"
	"encoding/binary"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// The places in the image that build makes: three blocks of 4 KiB, of which the last, which the disk's end cuts, and the
// first are stored, in this order.
const (
	builtHeader = 512
	builtTable  = 1536
	builtThird  = 2048
	builtFirst  = builtThird + 512 + builtBlock
	builtBlock  = 4 << 10
	builtDisk   = 2*builtBlock + 1024
	builtLen    = builtFirst + 512 + builtBlock + footerLen
)

// build makes a small dynamic image, changes it, and seals it.
func build(change ...func(b []byte)) []byte {
	be := binary.BigEndian
	b := make([]byte, builtLen)
	putFooter(b, typeDynamic, builtDisk)
	be.PutUint64(b[16:], builtHeader)
	h := b[builtHeader:]
	copy(h, headerCookie)
	be.PutUint64(h[8:], 1<<64-1)
	be.PutUint64(h[16:], builtTable)
	be.PutUint32(h[24:], 1<<16)
	be.PutUint32(h[28:], 3)
	be.PutUint32(h[32:], builtBlock)
	for i, entry := range []uint32{builtFirst / sector, unused, builtThird / sector} {
		be.PutUint32(b[builtTable+4*i:], entry)
	}
	copy(b[builtFirst+512:], bytes.Repeat([]byte("data"), builtBlock/4))
	copy(b[builtThird+512:], bytes.Repeat([]byte("more"), builtBlock/4))
	for _, c := range change {
		c(b)
	}
	seal(b)
	return b
}

// builtWant is the disk in what build makes.
func builtWant() []byte {
	disk := make([]byte, builtDisk)
	copy(disk, bytes.Repeat([]byte("data"), builtBlock/4))
	copy(disk[2*builtBlock:], bytes.Repeat([]byte("more"), 256))
	return disk
}

// buildFixed makes a fixed image of a disk, and changes and seals its footer.
func buildFixed(disk []byte, change ...func(footer []byte)) []byte {
	footer := make([]byte, footerLen)
	putFooter(footer, typeFixed, uint64(len(disk)))
	for _, c := range change {
		c(footer)
	}
	sealFooter(footer)
	return append(bytes.Clone(disk), footer...)
}

// putFooter makes a footer, not sealed.
func putFooter(b []byte, kind uint32, size uint64) {
	be := binary.BigEndian
	copy(b, footerCookie)
	be.PutUint32(b[8:], 2)
	be.PutUint32(b[12:], 1<<16)
	be.PutUint64(b[16:], 1<<64-1)
	be.PutUint64(b[40:], size)
	be.PutUint64(b[48:], size)
	be.PutUint32(b[60:], kind)
}

// seal makes the checksums of the footer's copy and the header right.
func seal(b []byte) {
	be := binary.BigEndian
	if at := be.Uint64(b[16:]); at <= uint64(len(b)) && at+headerLen <= uint64(len(b)) {
		h := b[at : at+headerLen]
		be.PutUint32(h[36:], checksum(h, 36))
	}
	sealFooter(b)
}

// sealFooter makes the checksum of the footer right that b begins with, whole or without its last byte.
func sealFooter(b []byte) {
	if len(b) >= oldFooterLen {
		binary.BigEndian.PutUint32(b[64:], checksum(b[:min(len(b), footerLen)], 64))
	}
}

// tableLast answers a copy of an image with its block allocation table behind everything else.
func tableLast(b []byte) []byte {
	be := binary.BigEndian
	h := b[be.Uint64(b[16:]):]
	table := b[be.Uint64(h[16:]):][:4*be.Uint32(h[28:])]
	moved := append(bytes.Clone(b), table...)
	be.PutUint64(moved[be.Uint64(b[16:])+16:], uint64(len(b)))
	seal(moved)
	return moved
}

// put32, put64 and putBytes change an image.
func put32(at int, v uint32) func([]byte) { return imagetest.Put(binary.BigEndian, at, v) }

func put64(at int, v uint64) func([]byte) { return imagetest.Put(binary.BigEndian, at, v) }

func putBytes(at int, v string) func([]byte) { return imagetest.PutBytes(at, v) }
