package qcow2

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
)

// seeds are hostile and strange images, and small ones of each kind that QEMU made (testdata/seeds).
func seeds(f *testing.F) [][]byte {
	list := [][]byte{
		build(),
		build(put64(24, 1<<45), put32(36, 1<<31)),                     // a huge L1 table
		build(put64(builtL2, builtData), put64(builtL2+8, builtData)), // one cluster in several places
		build(put64(builtL1, 0)),                                      // no L2 table
		build(put64(builtL1, builtL1)),                                // the L1 table as an L2 table: a cycle
		build(put64(builtL2+24, builtL2)),                             // an L2 table as data
		build(put64(builtL1, 512), put64(40, 1024), put64(1024, 512)), // tables behind each other
		build(put64(builtL2, 1)),                                      // a zero cluster
		build(put64(builtL2, compressedEntry(builtData, 2)), putBytes(builtData, string(deflated('x')))),
		build(put64(builtL2, compressedEntry(builtLen-3, 2))),             // a compressed cluster that goes on behind the end
		build(put64(builtL2, compressedEntry(1<<50, 2))),                  // one that begins there
		build(put64(72, featureExtendedL2), put32(20, 14)),                // subclusters
		build(put64(48, 1<<60), put32(56, 1<<31), put32(96, 63)),          // refcount nonsense
		build(put64(8, 300), put32(16, 11), putBytes(300, "/etc/passwd")), // a backing file
		build(put64(72, 1<<40), put32(104, extensionFeatures), put32(108, 48), putBytes(112, "\x00\x28teleportation")),
	}
	files, err := filepath.Glob("testdata/seeds/*.qcow2")
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

// FuzzReading reads an image anywhere and forward. What one way reads the other must read too, and the same.
func FuzzReading(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed, uint16(1), uint16(0))
	}
	f.Fuzz(func(t *testing.T, file []byte, nearby, memory uint16) {
		limits := image.Limits{DiskBytes: 1 << 20}
		want, err := readDisk(file, limits)
		requireRefusal(t, err)
		way := way{room: room{nearby: int(nearby), ahead: 512 + int(nearby)}, memory: int64(memory), random: true}
		if len(file) > image.HeadBytes {
			way.memory = 0
		}
		got, forwardErr := decodeSmall(file, way, limits)
		requireRefusal(t, forwardErr)
		switch {
		case forwardErr != nil && strings.Contains(forwardErr.Error(), "are stored in the same place"):
			return // only so with as little memory as here
		case (err == nil) != (forwardErr == nil):
			t.Fatalf("anywhere: %v; forward: %v", err, forwardErr)
		case err == nil && !bytes.Equal(got, want):
			t.Fatal("the two ways read different disks")
		}
		way.random = false
		got, forwardErr = decodeSmall(file, way, limits)
		requireRefusal(t, forwardErr)
		var refused *image.Refused
		switch {
		case errors.As(forwardErr, &refused) && refused.Reason == image.NeedsRandomAccess:
		case (err == nil) != (forwardErr == nil):
			t.Fatalf("anywhere: %v; forward without ranges: %v", err, forwardErr)
		case err == nil && !bytes.Equal(got, want):
			t.Fatal("the two ways read different disks, without ranges")
		}
	})
}

// decodeSmall is decodeForward with limits.
func decodeSmall(file []byte, w way, limits image.Limits) ([]byte, error) {
	if _, err := parseHeaderOf(file, limits); err != nil {
		return nil, err
	}
	return decodeForward(file, w)
}

func parseHeaderOf(file []byte, limits image.Limits) (header, error) {
	return parseHeader(file[:min(len(file), image.HeadBytes)], limits)
}

// requireRefusal requires that an error is an *image.Refused.
func requireRefusal(t *testing.T, err error) {
	t.Helper()
	var refused *image.Refused
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%v is no refusal", err)
	}
}
