package vmdk

import (
	"math/rand/v2"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// seeds are hostile and strange images, and small ones of each kind that QEMU made (testdata/seeds).
func seeds(f testing.TB) [][]byte {
	disk := imagetest.Disk()[:builtDisk]
	list := [][]byte{
		build(),
		build(put64(12, 1<<36)),                // a huge directory
		build(put32(builtDirectory, 3)),        // the directory as a table
		build(put32(builtTable, 4)),            // a table as data
		build(put32(builtTable, 8)),            // one grain in two places
		build(put32(builtTable, 7)),            // grains that overlap
		build(put32(builtTable, 1<<32-1)),      // data far behind the image
		build(put64(28, 0)),                    // no descriptor
		build(putBytes(0, "COWD")),             // another format
		build(put32(8, 7), put32(4*sector, 1)), // a zero grain
		textOf("monolithicFlat", `RW 81920 FLAT "disk-flat.vmdk" 0`),
		stream(disk, shape{}),
		stream(disk, shape{tablesLast: true}),
		stream(disk, shape{tablesLast: true, twoInOne: true, zeroGrains: true}),
		stream(disk[:7*builtGrain+sector], shape{padFirst: true, cutLast: true, redundant: true}),
		stream(disk, shape{change: func(_ int, entries []uint32) { entries[0] = 0 }}),
		stream(nil, shape{}),
	}
	return append(list, imagetest.Seeds(f)...)
}

// FuzzReading reads an image anywhere and forward. What the forward way reads the other must read too, and the same. The
// reverse holds as well, but for memory, and for a stream whose markers contradict its tables.
func FuzzReading(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint32(0))
		f.Add(seed, uint32(1))
	}
	f.Fuzz(func(t *testing.T, content []byte, memory uint32) {
		imagetest.RequireAgreement(t, content, image.Limits{DiskBytes: 100 << 10}, Open, hostileWays(int64(memory)), excuse)
	})
}

// hostileWays are ways for images that may be anything.
func hostileWays(memory int64) imagetest.Ways {
	limits := image.Limits{MemoryBytes: memory}
	return imagetest.Ways{
		"forward with ranges":    {Begin: begin, Limits: limits, Random: true},
		"forward without ranges": {Begin: begin, Limits: limits, MayRefuse: true},
	}
}

// excuse excuses what is only so with as little memory, and streams whose markers contradict their tables.
func excuse(content []byte, way imagetest.Way, _ error) bool {
	f, err := begin(content, image.Limits{})
	return way.Limits.MemoryBytes > 0 || err == nil && f.(forward).directory < 0
}

// anyByte chooses a byte of an image to be changed: of the header, of a table or marker, or any.
func anyByte(r *rand.Rand, content []byte) int {
	places := []int{r.IntN(len(content)), r.IntN(80), builtDirectory + r.IntN(8), builtTable + r.IntN(64), len(content) - 1 - r.IntN(4*sector)}
	at := places[r.IntN(len(places))]
	return max(0, min(at, len(content)-1))
}
