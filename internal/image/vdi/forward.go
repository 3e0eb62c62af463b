package vdi

import (
	"context"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/window"
)

// forward is an image whose header is known.
type forward struct{ header }

// Begin reads the header from the first bytes of an image: all of it, or at least image.HeadBytes. Its length in bytes may
// be image.Unknown. It answers an *image.Refused for an image that can't be read.
func Begin(head []byte, length int64, limits image.Limits) (image.Forward, error) {
	h, err := parseHeader(head, length, limits)
	if err != nil {
		return nil, err
	}
	return forward{h}, nil
}

// Format implements image.Forward.
func (forward) Format() image.Format { return image.VDI }

// Size implements image.Forward.
func (f forward) Size() int64 { return f.size }

// Run implements image.Forward. The block map is read first, then the blocks are served in the order of the stream, and
// reading stops behind the last one. Where a map in disorder takes more memory than the limit, it is read again from
// in.Random.
func (f forward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	w := window.New(ctx, in, image.VDI, f.data)
	runs := window.NewRuns(image.VDI, 1, in.Limits, in.Random != nil)
	gather := func() error { return f.eachBlock(w.Bytes, runs.Add) }
	return runs.Each(gather, func(run window.Run) error { return f.serve(w, run, sink) })
}

// serve hands over a run of blocks.
func (f forward) serve(w *window.Window, run window.Run, sink image.Sink) error {
	for i := range run.Count {
		number := run.Block + int64(i)
		offset, n := f.offset(run.At+i), int(f.stored(number))
		w.Forget(offset)
		b, err := w.Bytes(offset, n)
		if err != nil {
			return err
		}
		if len(b) < n {
			return truncated(fmt.Sprintf("block %d of its disk", number), offset, int64(n))
		}
		if err := sink(image.Piece{Offset: number * blockSize, Len: n, Full: n}, b); err != nil {
			return err
		}
	}
	return nil
}
