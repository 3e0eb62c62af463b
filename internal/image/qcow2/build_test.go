package qcow2

import (
	"bytes"
	"encoding/binary"

	"github.com/klauspost/compress/flate"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// The places in the image that build makes; its clusters have 512 bytes.
const (
	builtL1   = 512
	builtL2   = 1024
	builtData = 1536
	builtDisk = 64 * 512
	builtLen  = 2048
)

// build makes the smallest image with one stored cluster: a header, an L1 table, an L2 table, data.
func build(change ...func(b []byte)) []byte {
	be := binary.BigEndian
	b := make([]byte, builtLen)
	copy(b, "QFI\xfb")
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], 9)
	be.PutUint64(b[24:], builtDisk)
	be.PutUint32(b[36:], 1)
	be.PutUint64(b[40:], builtL1)
	be.PutUint32(b[96:], 4)
	be.PutUint32(b[100:], v3HeaderLen)
	be.PutUint64(b[builtL1:], builtL2)
	be.PutUint64(b[builtL2+3*8:], builtData)
	copy(b[builtData:], bytes.Repeat([]byte("data"), 128))
	for _, c := range change {
		c(b)
	}
	return b
}

func put32(at int, v uint32) func([]byte) { return imagetest.Put(binary.BigEndian, at, v) }

func put64(at int, v uint64) func([]byte) { return imagetest.Put(binary.BigEndian, at, v) }

func putBytes(at int, v string) func([]byte) { return imagetest.PutBytes(at, v) }

// deflated is 512 bytes of c, compressed.
func deflated(c byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, 9)
	if err != nil {
		panic(err)
	}
	if _, err := w.Write(bytes.Repeat([]byte{c}, 512)); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// compressedEntry is the L2 entry of a compressed cluster in an image with clusters of 512 bytes.
func compressedEntry(offset uint64, sectors uint64) uint64 {
	return flagCompressed | (sectors-1)<<61 | offset
}
