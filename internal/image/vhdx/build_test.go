package vhdx

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// The places in the image that build makes: two blocks of 1 MiB, of which the second is present.
const (
	builtMetadata = 2 * mib
	builtBAT      = 3 * mib
	builtData     = 4 * mib
	builtItems    = builtMetadata + metadataLen
	builtDisk     = 2*mib - 512
	builtLen      = builtData + mib - 512 // the disk ends within its last block, and so does the image
)

// build makes a small image, changes it, and seals it.
func build(change ...func(b []byte)) []byte {
	b := make([]byte, builtLen)
	copy(b, fileSignature)
	le := binary.LittleEndian
	for i, at := range []int{firstHeader, secondHeader} {
		copy(b[at:], headerSignature)
		le.PutUint64(b[at+8:], uint64(7+i))
		le.PutUint16(b[at+66:], knownHeader)
		le.PutUint32(b[at+68:], mib)
		le.PutUint64(b[at+72:], mib)
	}
	for _, at := range []int{firstRegion, secondRegion} {
		copy(b[at:], regionSignature)
		le.PutUint32(b[at+8:], 2)
		putRegion(b[at+16:], batRegion(), builtBAT)
		putRegion(b[at+48:], metadataRegion(), builtMetadata)
	}
	copy(b[builtMetadata:], metadataSignature)
	le.PutUint16(b[builtMetadata+10:], 5)
	for i, k := range knownItems()[:5] {
		entry := b[builtMetadata+32+32*i:]
		copy(entry, k.id[:])
		le.PutUint32(entry[16:], uint32(metadataLen+16*i))
		le.PutUint32(entry[20:], uint32(k.length))
		le.PutUint32(entry[24:], itemRequired)
	}
	le.PutUint32(b[builtItems:], minBlock)
	le.PutUint64(b[builtItems+16:], builtDisk)
	le.PutUint32(b[builtItems+48:], 512)
	le.PutUint32(b[builtItems+64:], 512)
	le.PutUint64(b[builtBAT+8:], builtData|statePresent)
	copy(b[builtData:], bytes.Repeat([]byte("data"), mib/4))
	for _, c := range change {
		c(b)
	}
	seal(b)
	return b
}

func putRegion(entry []byte, id guid, offset uint64) {
	copy(entry, id[:])
	binary.LittleEndian.PutUint64(entry[16:], offset)
	binary.LittleEndian.PutUint32(entry[24:], mib)
	binary.LittleEndian.PutUint32(entry[28:], 1)
}

// seal makes the checksums right.
func seal(b []byte) {
	for at, n := range map[int]int{firstHeader: headerLen, secondHeader: headerLen, firstRegion: regionLen, secondRegion: regionLen} {
		if at+n <= len(b) {
			clear(b[at+4 : at+8])
			binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(b[at:at+n], crc32.MakeTable(crc32.Castagnoli)))
		}
	}
}

// tablesLast answers a copy of an image with its metadata and its block allocation table at its end.
func tablesLast(b []byte) []byte {
	s, err := parseSection(b[:sectionLen])
	if err != nil {
		panic(err)
	}
	moved := append(bytes.Clone(b), make([]byte, (mib-len(b)%mib)%mib)...)
	places := map[guid]int{batRegion(): len(moved), metadataRegion(): len(moved) + int(s.bat.length)}
	for _, a := range []area{s.bat, s.metadata} {
		moved = append(moved, b[a.offset:a.end()]...)
		clear(moved[a.offset:a.end()])
	}
	for _, at := range []int{firstRegion, secondRegion} {
		for i := range 2 {
			entry := moved[at+16+32*i:]
			binary.LittleEndian.PutUint64(entry[16:], uint64(places[guid(entry[:16])]))
		}
	}
	seal(moved)
	return moved
}

func put16(at int, v uint16) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func put32(at int, v uint32) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func put64(at int, v uint64) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func putBytes(at int, v string) func([]byte) { return imagetest.PutBytes(at, v) }

// both does a change of the first header or region table to the second one too.
func both(change func(at int) func([]byte), first, second int) func([]byte) {
	return func(b []byte) {
		change(first)(b)
		change(second)(b)
	}
}
