// Package window keeps the newest part of an image's stream in memory, for decoders that find the whole of an image's
// metadata first and then serve its data in the stream's order. It must not know one format from another.
package window

import (
	"context"
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	// chunkBytes is how much of the stream is kept in one allocation.
	chunkBytes = 256 << 10
	// spareChunks is how many given up chunks are kept for reuse.
	spareChunks = 16
	// againBytes is how much is read at least where something is read a second time: tables lie side by side.
	againBytes = 256 << 10
)

// Window is one forward pass over a stream. What was read stays until it is forgotten, or until the limit is reached.
// Not safe for concurrent use.
type Window struct {
	ctx    context.Context // of the pass that the window serves
	in     image.Input
	format image.Format
	limit  int64
	front  int64

	chunks [][]byte // full ones, and the last
	base   int64    // of the first chunk in the stream
	start  int64    // what lies before was given up
	end    int64    // what lies before was read
	ended  bool

	spare   [][]byte
	scratch []byte

	buffer  []byte
	again   []byte // what was read a second time last, in buffer
	againAt int64
}

// New answers the window on in.Stream, which begins at in.Start. It keeps up to half of in.Limits.MemoryBytes. The image's first bytes, as many as
// front says, hold nothing but metadata as far as its header can be believed, so they are given up without a word where
// memory ends.
func New(ctx context.Context, in image.Input, format image.Format, front int64) *Window {
	return &Window{
		ctx: ctx, in: in, format: format, limit: in.Limits.WithDefaults().MemoryBytes / 2, front: front,
		base: in.Start, start: in.Start, end: in.Start,
	}
}

// Bytes answers n bytes of the image at offset, or fewer where the image ends before; they are valid until the next
// call. What lies between the last byte read and these stays in the window. Where that is more than the limit, or where
// the bytes have been given up, they are read from in.Random, without which the image is refused.
func (w *Window) Bytes(offset int64, n int) ([]byte, error) {
	if start := offset - w.limit; start > w.start {
		if start > w.front {
			return w.readAgain(offset, n)
		}
		w.start = start
	}
	if offset < w.start {
		return w.readAgain(offset, n)
	}
	if err := w.read(offset + int64(n)); err != nil {
		return nil, err
	}
	return w.slice(offset, min(offset+int64(n), w.end)), nil
}

// Forget gives up what lies before offset; bytes that weren't read yet are skipped.
func (w *Window) Forget(offset int64) {
	w.start = max(w.start, offset)
	w.trim()
}

// Ended reports whether the stream ends at offset, up to which it was read.
func (w *Window) Ended(offset int64) (bool, error) {
	b, err := w.Bytes(offset, 1)
	return len(b) == 0, err
}

// read takes the stream up to offset into the window.
func (w *Window) read(offset int64) error {
	for w.end < offset && !w.ended {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		last := len(w.chunks) - 1
		if last < 0 || len(w.chunks[last]) == chunkBytes {
			w.chunks = append(w.chunks, w.chunk())
			last++
		}
		c := w.chunks[last]
		n, err := w.in.Stream.Read(c[len(c):chunkBytes])
		w.chunks[last] = c[:len(c)+n]
		w.end += int64(n)
		w.trim()
		if err == io.EOF { // a wrapped one is a failure
			w.ended = true
		} else if err != nil {
			return fmt.Errorf("read the %s image at offset %d: %w", w.format, w.end, err)
		}
	}
	return nil
}

// chunk answers an empty chunk.
func (w *Window) chunk() []byte {
	if n := len(w.spare); n > 0 {
		c := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return c
	}
	return make([]byte, 0, chunkBytes)
}

// trim gives up the chunks that lie before start.
func (w *Window) trim() {
	n := 0
	for n < len(w.chunks) && len(w.chunks[n]) == chunkBytes && w.base+chunkBytes <= w.start {
		if len(w.spare) < spareChunks {
			w.spare = append(w.spare, w.chunks[n][:0])
		}
		w.base += chunkBytes
		n++
	}
	if n > 0 {
		rest := copy(w.chunks, w.chunks[n:])
		clear(w.chunks[rest:])
		w.chunks = w.chunks[:rest]
	}
}

// slice answers what lies between two offsets that are both in the window.
func (w *Window) slice(offset, end int64) []byte {
	if offset >= end {
		return nil
	}
	i, at := (offset-w.base)/chunkBytes, (offset-w.base)%chunkBytes
	if n := end - offset; at+n <= chunkBytes {
		return w.chunks[i][at : at+n]
	}
	if int64(cap(w.scratch)) < end-offset {
		w.scratch = make([]byte, end-offset)
	}
	b := w.scratch[:end-offset]
	for done := 0; done < len(b); i++ {
		done += copy(b[done:], w.chunks[i][at:])
		at = 0
	}
	return b
}

// readAgain reads a part of the image out of turn.
func (w *Window) readAgain(offset int64, n int) ([]byte, error) {
	if w.again != nil && offset >= w.againAt && offset+int64(n) <= w.againAt+int64(len(w.again)) {
		return w.again[offset-w.againAt:][:n], nil
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	size := max(n, againBytes)
	if len(w.buffer) < size {
		w.buffer = make([]byte, size)
	}
	b := w.buffer[:size]
	w.again = nil
	got, err := w.in.ReadAgain(b, offset, w.format)
	if err != nil {
		return nil, err
	}
	w.again, w.againAt = b[:got], offset
	return b[:min(got, n)], nil
}
