package vhd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
)

// FuzzReading reads a dynamic image anywhere and forward. What one way reads the other must read too, and the same. Where
// sealed, the checksums are made right first.
func FuzzReading(f *testing.F) {
	for _, seed := range [][]byte{
		build(),
		tableLast(build()),
		build(put32(builtHeader+28, 1<<32-1)),
		build(put64(48, 1<<34), put32(builtHeader+28, 1<<32-1)),
		build(put32(60, typeDifferencing)),
		build(put32(builtTable+4, builtThird/sector)),
		build(put32(builtTable, 1<<32-2)),
		build(put64(16, headerLen)),
		build(putBytes(28, "vpc "), putBytes(56, "\x00\x01\x02\x03")),
	} {
		f.Add(seed, true)
	}
	names, err := filepath.Glob("testdata/seeds/*.vhd")
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds in testdata/seeds: %v", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, content []byte, sealed bool) {
		content = append([]byte(footerCookie), content[min(len(content), len(footerCookie)):]...)
		if sealed && len(content) >= footerLen {
			seal(content)
		}
		const disk = 1 << 20
		want, err := readDisk(content, image.Limits{DiskBytes: disk})
		requireRefusal(t, err)
		for _, w := range waysForward() {
			w.disk = disk
			got, forwardErr := decodeForward(content, w)
			requireRefusal(t, forwardErr)
			var refused *image.Refused
			switch {
			case w.memory > 0 && !w.random && errors.As(forwardErr, &refused) && refused.Reason == image.NeedsRandomAccess:
			case (err == nil) != (forwardErr == nil) || err == nil && !bytes.Equal(got, want):
				t.Fatalf("anywhere: %d bytes, %v; forward, %+v: %d bytes, %v", len(want), err, w, len(got), forwardErr)
			}
		}
	})
}

// FuzzUnmarked reads an image that begins as a raw disk anywhere and forward, by a stream that comes in small parts. A
// footer's checksum is made right first.
func FuzzUnmarked(f *testing.F) {
	disk := bytes.Repeat([]byte("disk"), 1024)
	f.Add(disk, uint16(512))
	f.Add(disk[:1000], uint16(1))
	f.Add(buildFixed(disk), uint16(7))
	f.Add(buildFixed(disk)[:len(disk)+oldFooterLen], uint16(511))
	f.Add(buildFixed(disk, putBytes(28, "vpc "), putBytes(56, "\x00\x01\x02\x03")), uint16(513))
	f.Add(buildFixed(disk, put32(60, typeDifferencing)), uint16(1024))
	f.Add(buildFixed(disk[:3000]), uint16(1025))
	f.Fuzz(func(t *testing.T, content []byte, step uint16) {
		if len(content) < sector || step == 0 || bytes.HasPrefix(content, []byte(footerCookie)) {
			return
		}
		content = bytes.Clone(content)
		sealFooter(content[lastSector(int64(len(content))):])
		want, err := readDisk(content, image.Limits{})
		requireRefusal(t, err)
		for _, w := range []way{{}, {unknown: true}, {random: true}} {
			w.step = int(step)
			got, forwardErr := decodeForward(content, w)
			requireRefusal(t, forwardErr)
			var refused *image.Refused
			switch {
			case !w.random && errors.As(forwardErr, &refused) && refused.Reason == image.NeedsRandomAccess:
			case (err == nil) != (forwardErr == nil) || err == nil && !bytes.Equal(got, want):
				t.Fatalf("anywhere: %d bytes, %v; forward, %+v: %d bytes, %v", len(want), err, w, len(got), forwardErr)
			}
		}
	})
}

// readDisk opens an image of either kind and reads its disk.
func readDisk(content []byte, limits image.Limits) ([]byte, error) {
	img, err := openAny(content, limits)
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
