package vhd

import (
	"context"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/window"
)

// pieceBytes is the length of the pieces that are handed over, at most.
const pieceBytes = 1 << 20

// forward is a dynamic image whose header is known.
type forward struct{ header }

// Begin reads the header from the first bytes of a dynamic image: all of it, or at least image.HeadBytes. Its length in
// bytes may be image.Unknown. It answers an *image.Refused for an image that can't be read.
func Begin(head []byte, length int64, limits image.Limits) (image.Forward, error) {
	h, err := parseHeader(head, length, limits)
	if err != nil {
		return nil, err
	}
	return forward{h}, nil
}

// Format implements image.Forward.
func (forward) Format() image.Format { return image.VHD }

// Size implements image.Forward.
func (f forward) Size() int64 { return f.size }

// Run implements image.Forward. The block allocation table is read first, then the blocks are served in the order of the
// image, and reading stops behind the last one. A table behind the data makes what lies before it held; where that exceeds
// the limit, the table is read from in.Random.
func (f forward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	w := window.New(ctx, in, image.VHD, f.front())
	present, err := f.readTable(func(p []byte, offset int64, what string) error {
		b, err := w.Bytes(offset, len(p))
		if err == nil && copy(p, b) < len(p) {
			err = truncated(what, offset, int64(len(p)))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, b := range present {
		if err := f.serve(w, b, sink); err != nil {
			return err
		}
	}
	return nil
}

// front is how much of the image's beginning is tables. Every known program has them there, without a gap for data.
func (f forward) front() int64 {
	if f.table.offset > image.HeadBytes {
		return f.place.end()
	}
	return f.table.end()
}

// serve hands over a block.
func (f forward) serve(w *window.Window, b block, sink image.Sink) error {
	data := f.data(b)
	for at := int64(0); at < data.length; at += pieceBytes {
		offset, n := data.offset+at, int(min(pieceBytes, data.length-at))
		w.Forget(offset)
		stored, err := w.Bytes(offset, n)
		if err != nil {
			return err
		}
		if len(stored) < n {
			return truncated(fmt.Sprintf("block %d of its disk", b.number()), data.offset, data.length)
		}
		if err := sink(image.Piece{Offset: b.number()*f.blockSize + at, Len: n, Full: n}, stored); err != nil {
			return err
		}
	}
	return nil
}
