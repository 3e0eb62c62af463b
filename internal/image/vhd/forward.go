package vhd

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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
	present = slices.DeleteFunc(present, func(b block) bool { return f.data(b).end() <= in.Start })
	for i, b := range present {
		p := pass{forward: f, window: w, start: in.Start, sink: sink}
		if i+1 < len(present) {
			p.next = f.data(present[i+1]).offset
		}
		if err := p.serve(b); err != nil {
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

// pass is a run of a forward decoder once the table was read.
type pass struct {
	forward
	window *window.Window
	start  int64 // what lies before it in the image was handed over by another pass
	next   int64 // where the data of the next block begin in the image; 0 behind the last block
	sink   image.Sink
}

// serve hands over a block, but for pieces that lie before the start.
func (p pass) serve(b block) error {
	data := p.data(b)
	for at := max(0, (p.start-data.offset)/pieceBytes*pieceBytes); at < data.length; at += pieceBytes {
		offset, n := data.offset+at, min(pieceBytes, data.length-at)
		p.window.Forget(offset)
		stored, err := p.window.Bytes(offset, int(n))
		if err != nil {
			return err
		}
		if int64(len(stored)) < n {
			return truncated(fmt.Sprintf("block %d of its disk", b.number()), data.offset, data.length)
		}
		mark := offset + n
		if at+n == data.length {
			mark = cmp.Or(p.next, offset) // the last piece, to have something to start with
		}
		if err := p.sink(image.Piece{Offset: b.number()*p.blockSize + at, Len: int(n), Full: int(n), Mark: mark}, stored); err != nil {
			return err
		}
	}
	return nil
}
