package qcow2

import (
	"context"
	"fmt"
	"io"
)

// room is how much memory a window takes besides the run that is wanted.
type room struct {
	// nearby is how many bytes behind the one that is wanted stay in the window at least. Tables that follow their data
	// this closely, as QEMU writes them, cost nothing.
	nearby int
	// ahead is how many bytes the window can read ahead.
	ahead int
}

// defaultRoom suits images as QEMU writes them.
func defaultRoom() room { return room{nearby: 2 << 20, ahead: 4 << 20} }

// window is the part of a stream that is in memory. It only moves forward.
type window struct {
	r     io.Reader
	buf   []byte
	start int64 // of buf in the image
	n     int   // bytes of buf that are read
	ended bool  // the stream has ended behind them

	// lookback is how many bytes behind the one that is wanted stay. It is never less than the longest run, so a run
	// that began before the window ends within it.
	lookback int
}

// newWindow makes a window on a stream that begins at start of the image, which can hold a run of longest bytes.
func newWindow(r io.Reader, start int64, longest int, room room) *window {
	lookback := max(room.nearby, longest)
	return &window{r: r, start: start, buf: make([]byte, lookback+longest+room.ahead), lookback: lookback}
}

func (w *window) end() int64 { return w.start + int64(w.n) }

// bytes answers what the window has of the stream from offset to end.
func (w *window) bytes(offset, end int64) []byte {
	offset, end = max(offset, w.start), min(end, w.end())
	if offset >= end {
		return nil
	}
	return w.buf[offset-w.start : end-w.start]
}

// reach reads on until the bytes from offset to end are in the window, or the stream has ended. Where room is needed,
// it calls leave with the oldest bytes before they are given up; when leave answers false it stops at once and answers
// false too, and the window is as it would be if those bytes had left.
func (w *window) reach(ctx context.Context, offset, end int64, leave func(start int64, b []byte) (bool, error)) (bool, error) {
	for w.end() < end && !w.ended {
		if w.n == len(w.buf) {
			n := int(min(offset, w.end()) - int64(w.lookback) - w.start)
			goOn, err := w.drop(n, leave)
			if err != nil || !goOn {
				return false, err
			}
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := w.r.Read(w.buf[w.n:])
		w.n += n
		if err == io.EOF { // a wrapped one is a failure
			w.ended = true
		} else if err != nil {
			return false, fmt.Errorf("read the qcow2 image at offset %d: %w", w.end(), err)
		}
	}
	return true, nil
}

// drop gives up the first n bytes.
func (w *window) drop(n int, leave func(start int64, b []byte) (bool, error)) (bool, error) {
	start, b := w.start, w.buf[:n]
	w.start += int64(n)
	w.buf, w.n = w.buf[n:], w.n-n // so that leave sees the window without them
	goOn, err := leave(start, b)
	whole := w.buf[:w.n]
	w.buf = b[:cap(b)]
	copy(w.buf, whole)
	return goOn, err
}
