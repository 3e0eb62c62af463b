package imagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/codec"
)

// RequireDisk reads an image as a whole, at random places and by its extents, and requires that it is the disk.
func RequireDisk(t testing.TB, img image.Image, disk []byte) {
	t.Helper()
	got := make([]byte, img.Size())
	if n, err := img.ReadAt(got, 0); err != nil {
		t.Fatalf("read the disk: %d bytes, %v", n, err)
	}
	RequireEqual(t, got, disk)
	r := rand.New(rand.NewPCG(8, 9))
	for range 200 {
		offset := r.Int64N(img.Size())
		part := make([]byte, r.Int64N(1<<18))
		n, err := img.ReadAt(part, offset)
		if err != nil && (!errors.Is(err, io.EOF) || offset+int64(len(part)) <= img.Size()) {
			t.Fatalf("read %d bytes at %d: %v", len(part), offset, err)
		}
		RequireEqual(t, part[:n], disk[offset:min(offset+int64(len(part)), img.Size())])
	}
	requireExtents(t, img, disk)
}

// requireExtents requires that extents lie side by side over the whole disk, and that those of zeros are zeros.
func requireExtents(t testing.TB, img image.Image, disk []byte) {
	t.Helper()
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
		if extent.Zero && len(bytes.Trim(disk[extent.Start:offset], "\x00")) > 0 {
			t.Fatalf("extent %+v is not zero", extent)
		}
	}
	if offset != img.Size() {
		t.Fatalf("the extents end at %d, the disk at %d", offset, img.Size())
	}
}

// Decode runs a forward pass into memory. It panics where a part of the disk is given twice, or lies behind its end.
func Decode(f image.Forward, in image.Input) ([]byte, error) {
	disk := make([]byte, f.Size())
	given := make([]bool, (f.Size()+511)/512)
	err := f.Run(context.Background(), in, decodeTo(func(p image.Piece, full []byte) {
		for i := p.Offset / 512; i*512 < p.Offset+int64(p.Len); i++ {
			if given[i] {
				panic(fmt.Sprintf("sector %d was given twice", i))
			}
			given[i] = true
		}
		copy(disk[p.Offset:p.Offset+int64(p.Len)], full)
	}))
	return disk, err
}

// DecodeAndForget runs a forward pass and keeps nothing of it, for disks that memory can't hold.
func DecodeAndForget(f image.Forward, in image.Input) error {
	return f.Run(context.Background(), in, decodeTo(func(image.Piece, []byte) {}))
}

func decodeTo(take func(p image.Piece, full []byte)) image.Sink {
	var decoder codec.Decoder
	return func(p image.Piece, stored []byte) error {
		full := make([]byte, p.Full)
		if err := decoder.Decode(full, p.Encoding, stored); err != nil {
			return image.Refuse(image.CorruptImage, "piece at %d: %v", p.Offset, err)
		}
		take(p, full)
		return nil
	}
}

// RequireEqual requires that bytes are as wanted, and names the first that isn't.
func RequireEqual(t testing.TB, got, want []byte) {
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
