package vdi

import (
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// FuzzReading reads an image anywhere and forward. What one way reads the other must read too, and the same.
func FuzzReading(f *testing.F) {
	for _, seed := range [][]byte{
		build(),
		build(put32(builtMap, 0)),               // two blocks in one place
		build(put32(builtMap, firstHole-1)),     // a block behind the image
		build(put32(builtMap, 1)),               // the same, nearer
		build(put64(atDiskSize, 1<<44)),         // a huge disk
		build(put32(atBlocks, 1<<31)),           // a huge map
		build(put32(atData, builtMap)),          // the map as data
		build(put32(atMap, builtLen)),           // a map behind the data
		build(put32(atType, typeDifferences)),   // a parent
		build(put64(atDiskSize, builtDisk-511)), // an odd size
	} {
		f.Add(seed)
	}
	for _, seed := range imagetest.Seeds(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		imagetest.RequireAgreement(t, content, image.Limits{DiskBytes: 3 << 20}, Open, waysForward(), excuseNone)
	})
}
