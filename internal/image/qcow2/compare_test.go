package qcow2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/codec"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	for name, recipe := range imagetest.Recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, want := imagetest.Make(t, t.TempDir(), recipe)
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Run("anywhere", func(t *testing.T) { compareOpen(t, file, want) })
			for name, way := range waysForward() {
				t.Run(name, func(t *testing.T) {
					got, err := decodeForward(file, way)
					var refused *image.Refused
					if way.mayRefuse && errors.As(err, &refused) && refused.Reason == image.NeedsRandomAccess {
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					requireEqual(t, got, want)
				})
			}
		})
	}
}

// compareOpen reads an image as a whole, at random places and by its extents.
func compareOpen(t *testing.T, file, want []byte) {
	img, err := Open(bytes.NewReader(file), int64(len(file)), image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, img.Size())
	if n, err := img.ReadAt(got, 0); err != nil {
		t.Fatalf("read the disk: %d bytes, %v", n, err)
	}
	requireEqual(t, got, want)
	r := rand.New(rand.NewPCG(8, 9))
	for range 200 {
		offset := r.Int64N(img.Size())
		part := make([]byte, r.Int64N(1<<18))
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
	room      room
	random    bool
	memory    int64
	mayRefuse bool // what needs random access
}

func waysForward() map[string]way {
	tiny := room{nearby: 1, ahead: 512}
	return map[string]way{
		"forward":                                  {room: defaultRoom()},
		"forward with ranges":                      {room: defaultRoom(), random: true},
		"forward with a tiny window":               {room: tiny, mayRefuse: true},
		"forward with a tiny window and ranges":    {room: tiny, random: true},
		"forward with little memory and ranges":    {room: tiny, random: true, memory: 64 << 10},
		"forward with no memory and ranges":        {room: tiny, random: true, memory: 2 * 10 * unitCost},
		"forward with little memory and no ranges": {room: tiny, memory: 64 << 10, mayRefuse: true},
	}
}

// decodeForward decodes an image in one forward pass into memory.
func decodeForward(file []byte, w way) ([]byte, error) {
	limits := image.Limits{DiskBytes: 1 << 28, MemoryBytes: w.memory}
	f, err := Begin(file[:min(len(file), image.HeadBytes)], limits)
	if err != nil {
		return nil, err
	}
	pass := f.(forward)
	pass.room = w.room
	in := image.Input{Stream: bytes.NewReader(file), Limits: limits}
	if w.random {
		in.Random = bytes.NewReader(file)
	}
	disk := make([]byte, pass.Size())
	given := make([]bool, (pass.Size()+511)/512)
	var decoder codec.Decoder
	err = pass.Run(context.Background(), in, func(p image.Piece, stored []byte) error {
		for i := p.Offset / 512; i*512 < p.Offset+int64(p.Len); i++ {
			if given[i] {
				panic("a part of the disk was given twice")
			}
			given[i] = true
		}
		full := make([]byte, p.Full)
		if err := decoder.Decode(full, p.Encoding, stored); err != nil {
			return image.Refuse(image.CorruptImage, "piece at %d: %v", p.Offset, err)
		}
		copy(disk[p.Offset:p.Offset+int64(p.Len)], full)
		return nil
	})
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
