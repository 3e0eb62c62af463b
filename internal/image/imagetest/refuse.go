package imagetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
)

// Put changes an image: a number of it.
func Put[N uint16 | uint32 | uint64](order binary.ByteOrder, at int, v N) func([]byte) {
	return func(b []byte) {
		switch v := any(v).(type) {
		case uint16:
			order.PutUint16(b[at:], v)
		case uint32:
			order.PutUint32(b[at:], v)
		case uint64:
			order.PutUint64(b[at:], v)
		}
	}
}

// PutBytes changes bytes of an image.
func PutBytes(at int, v string) func([]byte) {
	return func(b []byte) { copy(b[at:], v) }
}

// Seeds are the small images in testdata/seeds of a test's package.
func Seeds(t testing.TB) [][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/seeds/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("no seeds in testdata/seeds: %v", err)
	}
	var seeds [][]byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, b)
	}
	return seeds
}

// Read opens an image and reads its disk, or the beginning of that, of at most so many bytes.
func Read(open Opener, content []byte, limits image.Limits, most int64) ([]byte, error) {
	img, err := open(bytes.NewReader(content), int64(len(content)), limits)
	if err != nil {
		return nil, err
	}
	disk := make([]byte, min(img.Size(), most))
	_, err = img.ReadAt(disk, 0)
	return disk, err
}

// RequireRefusal requires that an error, if there is one, is an *image.Refused.
func RequireRefusal(t testing.TB, err error) {
	t.Helper()
	var refused *image.Refused
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("%v is no refusal", err)
	}
}

// RequireRefused requires that an image is refused as wanted when it is opened or its first MiB is read, before so many
// bytes were allocated; and for the same reason in every way of decoding it forward.
func RequireRefused(t testing.TB, content []byte, want image.Refused, allocated uint64, open Opener, ways Ways) {
	t.Helper()
	before := allocatedSoFar()
	var got *image.Refused
	if _, err := Read(open, content, image.Limits{}, 1<<20); !errors.As(err, &got) {
		t.Fatalf("got %v", err)
	}
	if *got != want {
		t.Errorf("got  %s: %s\nwant %s: %s", got.Reason, got.Message, want.Reason, want.Message)
	}
	if n := allocatedSoFar() - before; n > allocated {
		t.Errorf("%d bytes were allocated", n)
	}
	for name, way := range ways {
		way.Limits.DiskBytes = image.Limits{}.WithDefaults().DiskBytes
		f, in, err := way.begin(content)
		if err == nil {
			err = DecodeAndForget(f, in)
		}
		if !way.excuses(err) && (!errors.As(err, &got) || got.Reason != want.Reason) {
			t.Errorf("%s: got %v, want reason %s", name, err, want.Reason)
		}
	}
}

// allocatedSoFar is how many bytes were ever allocated.
func allocatedSoFar() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
