package vmdk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// seeds are hostile and strange images, and small ones of each kind that QEMU made (testdata/seeds).
func seeds(f *testing.F) [][]byte {
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
	files, err := filepath.Glob("testdata/seeds/*.vmdk")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in testdata/seeds: %v", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// FuzzReading reads an image anywhere and forward. What the forward way reads the other must read too, and the same. The
// reverse holds as well, but for memory, and for a stream whose markers contradict its tables.
func FuzzReading(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint32(0))
		f.Add(seed, uint32(1))
	}
	f.Fuzz(func(t *testing.T, file []byte, memory uint32) {
		limits := image.Limits{DiskBytes: 100 << 10}
		want, err := readDisk(file, limits)
		requireRefusal(t, err)
		h, _ := parseBeginning(file[:min(len(file), image.HeadBytes)], limits)
		for _, random := range []bool{true, false} {
			got, forwardErr := decodeForward(file, way{random: random, memory: int64(memory), disk: limits.DiskBytes})
			requireRefusal(t, forwardErr)
			var refused *image.Refused
			switch {
			case forwardErr == nil && (err != nil || !bytes.Equal(got, want)):
				t.Fatalf("forward it is a disk, and anywhere another one, or %v", err)
			case forwardErr == nil, err != nil:
			case errors.As(forwardErr, &refused) && refused.Reason == image.NeedsRandomAccess && !random:
			case h.directory < 0, memory > 0:
			default:
				t.Fatalf("anywhere it is a disk, and forward %v", forwardErr)
			}
		}
	})
}

// requireRefusal requires that an error is an *image.Refused.
func requireRefusal(t *testing.T, err error) {
	t.Helper()
	var refused *image.Refused
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%v is no refusal", err)
	}
}
