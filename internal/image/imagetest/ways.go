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

// Opener is a format's Open.
type Opener func(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error)

// Beginner is a format's Begin, which is given as much of the image's beginning as a test wants.
type Beginner func(content []byte, limits image.Limits) (image.Forward, error)

// Way is a way of decoding forward.
type Way struct {
	Begin Beginner
	// Random gives the pass random access too.
	Random bool
	Limits image.Limits
	// MayRefuse: that the way needs random access or more memory is no failure.
	MayRefuse bool
}

// Ways are ways by a name that reads as a sentence.
type Ways map[string]Way

// defaultDisk is the largest disk that ways accept unless they say otherwise, in bytes.
const defaultDisk = 1 << 28

// begin begins a pass over an image, and answers what it reads from.
func (w Way) begin(content []byte) (image.Forward, image.Input, error) {
	if w.Limits.DiskBytes == 0 {
		w.Limits.DiskBytes = defaultDisk
	}
	in := image.Input{Stream: bytes.NewReader(content), Limits: w.Limits}
	if w.Random {
		in.Random = bytes.NewReader(content)
	}
	f, err := w.Begin(content, w.Limits)
	return f, in, err
}

// Decode decodes an image into memory.
func (w Way) Decode(content []byte) ([]byte, error) {
	f, in, err := w.begin(content)
	if err != nil {
		return nil, err
	}
	return Decode(f, in)
}

// excuses reports whether an error is one that the way may end with.
func (w Way) excuses(err error) bool {
	var refused *image.Refused
	return w.MayRefuse && errors.As(err, &refused) && (refused.Reason == image.NeedsRandomAccess || refused.Reason == image.TooLarge)
}

// RequireReads reads an image anywhere and in all ways, and requires that it is the disk.
func RequireReads(t *testing.T, content, disk []byte, open Opener, ways Ways) {
	t.Helper()
	t.Run("anywhere", func(t *testing.T) {
		img, err := open(bytes.NewReader(content), int64(len(content)), image.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		RequireDisk(t, img, disk)
	})
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			got, err := way.Decode(content)
			if way.excuses(err) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			RequireEqual(t, got, disk)
		})
	}
}

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
		if img.Size() == 0 {
			break
		}
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

// Decode runs a forward pass into memory. It panics where a part of the disk is given twice, or lies behind its end, or
// where the disk's size changes once it is known.
func Decode(f image.Forward, in image.Input) ([]byte, error) {
	var disk []byte
	var given []bool // by sector
	begun := f.Size()
	err := f.Run(context.Background(), in, decodeTo(func(p image.Piece, full []byte) {
		end := p.Offset + int64(p.Len)
		if end > int64(len(disk)) { // to its whole length where that is known
			disk = append(disk, make([]byte, max(end, f.Size())-int64(len(disk)))...)
			given = append(given, make([]bool, (len(disk)+511)/512-len(given))...)
		}
		for i := p.Offset / 512; i*512 < end; i++ {
			if given[i] {
				panic(fmt.Sprintf("sector %d was given twice", i))
			}
			given[i] = true
		}
		copy(disk[p.Offset:end], full)
	}))
	if err != nil {
		return nil, err
	}
	if begun != image.Unknown && begun != f.Size() || int64(len(disk)) > f.Size() {
		panic(fmt.Sprintf("the disk had %d bytes, has %d, and was given %d", begun, f.Size(), len(disk)))
	}
	return append(disk, make([]byte, f.Size()-int64(len(disk)))...), nil
}

// DecodeAndForget runs a forward pass and keeps nothing of it, for disks that memory can't hold.
func DecodeAndForget(f image.Forward, in image.Input) error {
	return f.Run(context.Background(), in, decodeTo(func(image.Piece, []byte) {}))
}

// decodeTo is the sink that decodes pieces. The bytes are only valid during the call.
func decodeTo(take func(p image.Piece, full []byte)) image.Sink {
	var decoder codec.Decoder
	var full []byte
	return func(p image.Piece, stored []byte) error {
		if cap(full) < p.Full {
			full = make([]byte, p.Full)
		}
		full = full[:p.Full]
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
