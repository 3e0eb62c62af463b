package raw

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>4) | 1
	}
	return b
}

func TestTheImageIsTheDiskUpToAWholeSector(t *testing.T) {
	for _, n := range []int{512, 513, 1 << 20, 1<<20 + 1, 3<<20 - 1} {
		whole := content(n)
		want := append(bytes.Clone(whole), make([]byte, -n&511)...)
		img := Open(bytes.NewReader(whole), int64(n))
		got := make([]byte, img.Size()+10)
		read, err := img.ReadAt(got, 0)
		if !errors.Is(err, io.EOF) || !bytes.Equal(got[:read], want) {
			t.Errorf("%d bytes: read %d, %v", n, read, err)
		}
		if read, err = img.ReadAt(got[:2], img.Size()-2); read != 2 || err != nil || !bytes.Equal(got[:2], want[len(want)-2:]) {
			t.Errorf("%d bytes, at the end: %d, %v", n, read, err)
		}
		extent, err := img.Next(5)
		if diff := cmp.Diff(image.Extent{Start: 5, Len: img.Size() - 5}, extent); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if _, err := img.Next(img.Size()); !errors.Is(err, io.EOF) {
			t.Errorf("extent at the end: %v", err)
		}
	}
}

func TestForwardHandsOverTheWholeStream(t *testing.T) {
	for _, n := range []int{512, 513, 1 << 20, 3<<20 - 1} {
		for _, length := range []int64{int64(n), image.Unknown} {
			var got []byte
			err := Begin(length).Run(t.Context(), image.Input{Stream: bytes.NewReader(content(n))}, func(p image.Piece, stored []byte) error {
				if p.Offset != int64(len(got)) || p.Len != len(stored) || p.Full != p.Len || p.Encoding != image.Plain {
					t.Errorf("piece %+v with %d bytes at %d", p, len(stored), len(got))
				}
				got = append(got, stored...)
				return nil
			})
			if err != nil || !bytes.Equal(got, content(n)) {
				t.Errorf("%d bytes: %d, %v", n, len(got), err)
			}
		}
	}
}

func TestGoesOnWhereAPassWasStopped(t *testing.T) {
	for _, n := range []int{512, 1 << 20, 3<<20 - 1, 5 << 20, 5<<20 + 100} {
		way := imagetest.Way{Random: true, Begin: func(content []byte, _ image.Limits) (image.Forward, error) { return Begin(int64(len(content))), nil }}
		disk := append(content(n), make([]byte, -n&511)...)
		got := imagetest.RequireResume(t, way, content(n), disk, 50, func(int64) int64 { return 0 })
		if want := (n - 1) / blockBytes; len(got.Marks) != want {
			t.Errorf("%d bytes: %d marks, want %d", n, len(got.Marks), want)
		}
	}
}

func TestForwardRefusesWhatItsEndGivesAway(t *testing.T) {
	tests := map[string]struct {
		content []byte
		length  int64
		want    image.Reason
	}{
		"a stream that ends too early": {content(1000), 1001, image.Truncated},
		"a stream that ends too late":  {content(1001), 1000, image.Truncated},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := Begin(test.length).Run(t.Context(), image.Input{Stream: bytes.NewReader(test.content)}, func(image.Piece, []byte) error { return nil })
			var refused *image.Refused
			if !errors.As(err, &refused) || refused.Reason != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestForwardEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Begin(image.Unknown).Run(ctx, image.Input{Stream: bytes.NewReader(content(3 << 20))}, func(image.Piece, []byte) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
