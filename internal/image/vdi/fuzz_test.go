package vdi

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
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
	names, err := filepath.Glob("testdata/seeds/*.vdi")
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds in testdata/seeds: %v", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		limits := image.Limits{DiskBytes: 3 << 20}
		want, err := readDisk(file, limits)
		requireRefusal(t, err)
		for _, w := range []way{{random: true, memory: 1}, {}, {unknown: true}} {
			got, forwardErr := decodeForward(file, w, limits)
			requireRefusal(t, forwardErr)
			if (err == nil) != (forwardErr == nil) || err == nil && !bytes.Equal(got, want) {
				t.Fatalf("anywhere: %d bytes, %v; forward, %+v: %d bytes, %v", len(want), err, w, len(got), forwardErr)
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
