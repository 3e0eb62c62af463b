package vdi

import (
	"context"
	"fmt"
	"math"

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
	runs.SkipBefore((in.Start - f.data) / blockSize)
	gather := func() error { return f.eachBlock(w.Bytes, runs.Add) }
	return runs.Each(gather, func(run window.Run, next int64) error { return f.serve(w, run, next, sink) })
}

// serve hands over a run of blocks. next is the place from which on later runs begin.
func (f forward) serve(w *window.Window, run window.Run, next int64, sink image.Sink) error {
	if next == math.MaxInt64 {
		next = int64(run.At) + int64(run.Count) - 1 // the last block, to have something to start with
	}
	for i := range int64(run.Count) {
		number, place := run.Block+i, int64(run.At)+i
		offset, n := f.offset(place), int(f.stored(number))
		w.Forget(offset)
		b, err := w.Bytes(offset, n)
		if err != nil {
			return err
		}
		if len(b) < n {
			return truncated(fmt.Sprintf("block %d of its disk", number), offset, int64(n))
		}
		if i+1 < int64(run.Count) {
			place++
		} else {
			place = next
		}
		if err := sink(image.Piece{Offset: number * blockSize, Len: n, Full: n, Mark: f.offset(place)}, b); err != nil {
			return err
		}
	}
	return nil
}
