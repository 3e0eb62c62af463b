package vdi

import (
	"bytes"
	"encoding/binary"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// The places in the image that build makes. Its last block ends with the disk, and so does the image.
const (
	builtMap  = 512
	builtData = 1024
	builtDisk = 2*blockSize + 1024
	builtLen  = builtData + 1024
)

// build makes the smallest image with one stored block: a header, a block map, data.
func build(change ...func(b []byte)) []byte {
	b := make([]byte, builtLen)
	putHeader(b, builtDisk)
	put32(builtMap, firstHole+1)(b)
	put32(builtMap+4, firstHole)(b)
	copy(b[builtData:], bytes.Repeat([]byte("data"), 1024/4))
	for _, c := range change {
		c(b)
	}
	return b
}

// builtWant is the disk in what build makes.
func builtWant() []byte {
	return append(make([]byte, 2*blockSize), bytes.Repeat([]byte("data"), 1024/4)...)
}

// putHeader makes the header of a disk whose block map fits a sector.
func putHeader(b []byte, disk int) {
	copy(b, "<<< Oracle VM VirtualBox Disk Image >>>\n")
	for at, v := range map[int]uint32{
		atSignature: signature, atVersion: version, 0x48: 0x190, atType: typeDynamic, atMap: builtMap, atData: builtData,
		atSectorSize: sector, atDiskSize: uint32(disk), atBlockSize: blockSize, atBlocks: uint32((disk + blockSize - 1) / blockSize),
	} {
		put32(at, v)(b)
	}
}

// inOrder makes an image of whole blocks, stored in the order that is given: place by place the number of a block, each
// filled with its own byte. It answers the disk too.
func inOrder(order []int) (file, disk []byte) {
	disk = make([]byte, len(order)*blockSize)
	file = make([]byte, builtData, builtData+len(disk))
	putHeader(file, len(disk))
	for place, number := range order {
		put32(builtMap+4*number, uint32(place))(file)
		file = append(file, bytes.Repeat([]byte{byte(number + 1)}, blockSize)...)
		copy(disk[number*blockSize:], file[len(file)-blockSize:])
	}
	return file, disk
}

// put32, put64 and putBytes change an image.
func put32(at int, v uint32) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func put64(at int, v uint64) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func putBytes(at int, v string) func([]byte) { return imagetest.PutBytes(at, v) }
