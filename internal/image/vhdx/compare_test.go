package vhdx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// recipes are images of every kind that QEMU makes.
func recipes() map[string]imagetest.Recipe {
	scattered := imagetest.RandomWrites(60)
	return map[string]imagetest.Recipe{
		"dynamic":                              {},
		"dynamic, blocks of 1 MiB":             {Options: "block_size=1M"},
		"dynamic, blocks of 2 MiB":             {Options: "block_size=2M"},
		"dynamic, blocks of 256 MiB":           {Options: "block_size=256M"},
		"dynamic, a log of 16 MiB":             {Options: "log_size=16M,block_size=1M"},
		"dynamic, not present instead of zero": {Options: "block_state_zero=off,block_size=1M", Empty: true, Steps: scattered[:10]},
		"dynamic, empty":                       {Empty: true},
		"dynamic, written at random":           {Options: "block_size=1M", Empty: true, Steps: scattered},
		"dynamic, backwards":                   {Options: "block_size=1M", Empty: true, Steps: []string{"io write -P 1 8M 5k", "io write -P 2 6M 1M", "io write -P 3 3M 512", "io write -P 4 0 1k"}},
		"fixed":                                {Options: "subformat=fixed"},
		"fixed, blocks of 1 MiB":               {Options: "subformat=fixed,block_size=1M"},
		"fixed, empty":                         {Options: "subformat=fixed,block_size=1M", Empty: true, Steps: scattered[:10]},
	}
}

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	for name, recipe := range recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, want := imagetest.MakeAs(t, t.TempDir(), "vhdx", recipe)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			compareAll(t, content, want, false)
			t.Run("tables moved to the end", func(t *testing.T) { compareAll(t, tablesLast(content), want, true) })
		})
	}
}

// compareAll reads an image in every way. If mayRefuse, little memory may not be enough without random access.
func compareAll(t *testing.T, content, want []byte, mayRefuse bool) {
	t.Run("anywhere", func(t *testing.T) { compareOpen(t, content, want) })
	for name, way := range waysForward() {
		t.Run(name, func(t *testing.T) {
			got, err := decodeForward(content, way, image.Limits{})
			var refused *image.Refused
			if (mayRefuse || way.memory > 0) && !way.random && errors.As(err, &refused) && refused.Reason == image.NeedsRandomAccess {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			requireEqual(t, got, want)
		})
	}
}

// compareOpen reads an image as a whole, at random places and by its extents.
func compareOpen(t *testing.T, content, want []byte) {
	img, err := Open(bytes.NewReader(content), int64(len(content)), image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, img.Size())
	if n, err := img.ReadAt(got, 0); err != nil {
		t.Fatalf("read the disk: %d bytes, %v", n, err)
	}
	requireEqual(t, got, want)
	r := rand.New(rand.NewPCG(8, 9))
	for range 100 {
		offset := r.Int64N(img.Size())
		part := make([]byte, r.Int64N(3<<20))
		n, err := img.ReadAt(part, offset)
		if err != nil && (!errors.Is(err, io.EOF) || offset+int64(len(part)) <= img.Size()) {
			t.Fatalf("read %d bytes at %d: %v", len(part), offset, err)
		}
		requireEqual(t, part[:n], want[offset:min(offset+int64(len(part)), img.Size())])
	}
	offset := int64(0)
	for {
		extent, err := img.Next(offset)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || extent.Start != offset || extent.Len <= 0 {
			t.Fatalf("extent at %d: %+v, %v", offset, extent, err)
		}
		offset += extent.Len
		if extent.Zero && len(bytes.Trim(want[extent.Start:offset], "\x00")) > 0 {
			t.Fatalf("extent %+v is not zero", extent)
		}
	}
	if offset != img.Size() {
		t.Fatalf("the extents end at %d, the disk at %d", offset, img.Size())
	}
}

// way is a way of decoding forward.
type way struct {
	random bool
	memory int64
	head   int // bytes for Begin
}

func waysForward() map[string]way {
	return map[string]way{
		"forward":                                  {head: image.HeadBytes},
		"forward with the whole head":              {head: MaxHeadBytes},
		"forward with ranges":                      {head: image.HeadBytes, random: true},
		"forward with little memory and ranges":    {head: image.HeadBytes, random: true, memory: 1},
		"forward with little memory and no ranges": {head: image.HeadBytes, memory: 8 << 20},
	}
}

// decodeForward decodes an image in one forward pass into memory.
func decodeForward(content []byte, w way, limits image.Limits) ([]byte, error) {
	limits.MemoryBytes = w.memory
	f, err := Begin(content[:min(len(content), w.head)], int64(len(content)), limits)
	if err != nil {
		return nil, err
	}
	in := image.Input{Stream: bytes.NewReader(content), Limits: limits}
	if w.random {
		in.Random = bytes.NewReader(content)
	}
	var disk []byte
	var given []bool
	atBegin := f.Size()
	err = f.Run(context.Background(), in, func(p image.Piece, stored []byte) error {
		if disk == nil {
			disk, given = make([]byte, f.Size()), make([]bool, (f.Size()+511)/512)
		}
		for i := p.Offset / 512; i*512 < p.Offset+int64(p.Len); i++ {
			if given[i] {
				panic("a part of the disk was given twice")
			}
			given[i] = true
		}
		copy(disk[p.Offset:p.Offset+int64(p.Len)], stored[:p.Full])
		return nil
	})
	if err == nil && atBegin != image.Unknown && atBegin != f.Size() {
		panic("the disk's size has changed")
	}
	if disk == nil && err == nil {
		disk = make([]byte, f.Size())
	}
	return disk, err
}

func requireEqual(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("byte %d is %#x, want %#x", i, got[i], want[i])
		}
	}
}
