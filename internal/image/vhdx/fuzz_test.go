package vhdx

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// tables are the parts of an image that say something, so that a fuzzer need not find them in the MiB around.
type tables struct {
	headers, regions []byte // from the first of both
	metadata, items  []byte // the metadata table and what lies behind it
	bat              []byte
	length           uint32 // of the image in bytes
}

const (
	fuzzPart = 1 << 10 // bytes of each part at most
	fuzzLen  = 6 * mib // bytes of an image at most
)

// image makes the image that has these tables where build has them.
func (p tables) image(sealed bool) []byte {
	b := make([]byte, max(builtItems+fuzzPart, min(p.length, fuzzLen)))
	for at := builtData; at < len(b); at += 4 << 10 { // a loop over each byte would take a fuzzer's time
		b[at] = byte(at>>12) | 1
	}
	copy(b, fileSignature)
	for at, part := range map[int][]byte{firstHeader: p.headers, secondHeader: p.headers, firstRegion: p.regions, secondRegion: p.regions, builtMetadata: p.metadata, builtItems: p.items, builtBAT: p.bat} {
		if at < len(b) {
			copy(b[at:], part[:min(len(part), fuzzPart)])
		}
	}
	if sealed {
		seal(b)
	}
	return b
}

// tablesOf takes the tables from an image.
func tablesOf(b []byte) tables {
	s, err := parseSection(b[:sectionLen])
	if err != nil {
		panic(err)
	}
	part := func(at int64, n int) []byte { return b[at : at+int64(n)] }
	return tables{part(secondHeader, 80), part(firstRegion, 80), part(s.metadata.offset, 224), part(s.metadata.offset+metadataLen, 80), part(s.bat.offset, 64), uint32(len(b))}
}

// FuzzReading reads an image anywhere and forward. What one way reads the other must read too, and the same.
func FuzzReading(f *testing.F) {
	for _, seed := range [][]byte{
		build(),
		build(withParent),
		build(put64(builtBAT, 5*mib|statePresent)),
		build(put64(builtItems+16, maxDisk), put32(builtItems, maxBlock)),
		build(put32(firstRegion+40, 1<<32-mib)),
		tablesLast(build()),
	} {
		p := tablesOf(seed)
		f.Add(p.headers, p.regions, p.metadata, p.items, p.bat, p.length, true, uint32(0))
	}
	for _, options := range []string{"block_size=1M", "block_size=2M", "block_size=1M,subformat=fixed"} {
		path, _ := imagetest.MakeAs(f, f.TempDir(), "vhdx", imagetest.Recipe{Options: options, Empty: true, Steps: []string{"io write -P 5 3M 1k"}})
		b, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			f.Fatal(err)
		}
		p := tablesOf(b)
		f.Add(p.headers, p.regions, p.metadata, p.items, p.bat, p.length, true, uint32(1<<20))
	}
	f.Fuzz(func(t *testing.T, headers, regions, metadata, items, bat []byte, length uint32, sealed bool, memory uint32) {
		b := tables{headers, regions, metadata, items, bat, length}.image(sealed)
		limits := image.Limits{DiskBytes: 4 << 20}
		want, err := readDisk(b, limits)
		requireRefusal(t, err)
		for _, way := range []way{
			{head: image.HeadBytes, random: true, memory: int64(memory)},
			{head: MaxHeadBytes, memory: int64(memory)},
		} {
			got, forwardErr := decodeForward(b, way, limits)
			requireRefusal(t, forwardErr)
			var refused *image.Refused
			switch {
			case !way.random && errors.As(forwardErr, &refused) && refused.Reason == image.NeedsRandomAccess:
			case (err == nil) != (forwardErr == nil):
				t.Fatalf("anywhere: %v; forward, %+v: %v", err, way, forwardErr)
			case err == nil && !bytes.Equal(got, want):
				t.Fatalf("the two ways read different disks: %+v", way)
			}
		}
	})
}

// readDisk opens an image and reads its disk.
func readDisk(b []byte, limits image.Limits) ([]byte, error) {
	img, err := Open(bytes.NewReader(b), int64(len(b)), limits)
	if err != nil {
		return nil, err
	}
	disk := make([]byte, img.Size())
	_, err = img.ReadAt(disk, 0)
	return disk, err
}

// requireRefusal requires that an error is an *image.Refused.
func requireRefusal(t *testing.T, err error) {
	t.Helper()
	var refused *image.Refused
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%v is no refusal", err)
	}
}
