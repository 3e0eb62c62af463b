package http

import (
	"context"
	"io"
	"sync"
	"time"
)

// window reads an object to its end, over as many connections as its pace says.
//
// It begins with one stream, which its reader reads without anything in between. To try more, it asks for a segment some
// way ahead of the stream (the scout). If the server answers that before the stream has come there, the stream ends
// where the scout begins, and from there on the object comes in segments, several at once, which are held in memory
// until the reader has come to them:
//
//	stream ────────────►|  segment  |  segment  |  segment  |   next
//	        at          scout's offset
//
// Else the stream just goes on. So no byte is asked for twice; what was under way on the stream's connection when it
// was ended is all that is lost. Where a segment fails, one stream takes over at the very byte, and mends what there is
// to mend; the segments behind it are kept.
//
// Only the reader's goroutine changes a window; those that fetch know their segment alone.
type window struct {
	source *httpSource
	ctx    context.Context // bounds everything that it does
	cancel context.CancelFunc
	end    int64

	at       int64 // of the next byte for the reader
	stream   *body // what is read at present, if it isn't a segment
	scouting bool  // the queue is the scout alone, and stream may still pass it
	queue    []*segment
	next     int64 // where the next segment begins; of a stream that isn't to be ended, the end

	pace    pace
	waited  time.Duration
	held    int64 // bytes of all buffers
	free    [][]byte
	running sync.WaitGroup
}

// newWindow makes a window that goes on where b is, to b's end.
func newWindow(ctx context.Context, b *body) *window {
	ctx, cancel := context.WithCancel(ctx)
	b.ctx = ctx
	w := &window{source: b.source, ctx: ctx, cancel: cancel, end: b.end, at: b.offset, stream: b, next: b.end, pace: b.source.pace}
	w.pace.begin(w.moment(w.source.now()))
	return w
}

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.at >= w.end {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	before := w.source.now()
	w.adapt(before)
	n, err := w.take(p)
	w.at += int64(n)
	w.waited += w.source.now().Sub(before)
	return n, err
}

// Close implements io.Closer.
func (w *window) Close() error {
	w.cancel()
	w.running.Wait()
	if w.stream == nil {
		return nil
	}
	return w.stream.Close()
}

// moment is what has happened until now.
func (w *window) moment(now time.Time) moment {
	m := moment{at: now, arrived: w.at, waited: w.waited}
	for _, s := range w.queue {
		filled, _, _ := s.state()
		m.arrived += int64(filled - s.pos)
	}
	return m
}

// adapt follows the pace.
func (w *window) adapt(now time.Time) {
	switch {
	case w.scouting:
		w.settle()
	case w.stream == nil || w.stream.end == w.end && len(w.queue) == 0: // not on the way from a stream to segments
		w.pace.judge(w.moment(now), w.end-w.at)
		if w.stream != nil && w.pace.connections > 1 {
			w.scout()
		}
	}
	if !w.scouting && w.pace.connections > 1 {
		w.fill()
	}
}

// scout asks for a segment ahead of the stream.
func (w *window) scout() {
	size := w.segmentSize()
	offset := w.at + max(size, int64(w.pace.rate*w.pace.rules.lead.Seconds()))
	if offset < w.at || offset > w.end-size { // also where rate is without measure
		w.pace.giveUp()
		return
	}
	w.next, w.scouting = offset, true
	w.start()
}

// settle ends the scouting, where it is clear how.
func (w *window) settle() {
	scout := w.queue[0]
	_, answered, err := scout.state()
	switch {
	case answered:
		w.scouting = false
		w.stream.end = scout.offset
	case err != nil || w.at >= scout.offset:
		w.scouting = false
		w.drop()
		w.next = w.end
		w.pace.trouble()
	}
}

// take reads what comes next.
func (w *window) take(p []byte) (int, error) {
	for {
		var n int
		var err error
		switch {
		case w.stream != nil:
			if w.scouting {
				p = p[:min(int64(len(p)), w.queue[0].offset-w.at)]
			}
			n, err = w.stream.Read(p)
			if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
				err = w.stream.Close()
				w.stream = nil
				w.pace.begin(w.moment(w.source.now()))
			}
		case len(w.queue) == 0:
			err = w.restream(w.end)
		default:
			if n, err = w.queue[0].Read(p); err != nil {
				err = w.pass(err)
			}
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// pass leaves the first segment, which has ended with err.
func (w *window) pass(err error) error {
	s := w.queue[0]
	w.queue = w.queue[1:]
	s.cancel()
	if err == io.EOF { //nolint:errorlint // of Read: it is whole
		w.recycle(s.buf)
		return nil
	}
	w.held -= int64(cap(s.buf))
	w.pace.trouble()
	return w.restream(s.end()) // at once: what failed may have been one connection too many
}

// restream reads on with one stream, up to end.
func (w *window) restream(end int64) error {
	b := &body{source: w.source, ctx: w.ctx, offset: w.at, mendedAt: w.at, end: end}
	var err error
	if b.response, err = w.source.ask(w.ctx, request{}, w.at, end); err != nil {
		if err := b.mend(err); err != nil {
			return err
		}
	}
	w.stream = b
	w.next = max(w.next, end)
	return nil
}

// fill starts as many segments as the pace and the memory allow.
func (w *window) fill() {
	active := 0
	if w.stream != nil {
		active++
	}
	for _, s := range w.queue {
		if _, _, err := s.state(); err == nil {
			active++
		}
	}
	for active < w.pace.connections && w.next < w.end && w.start() {
		active++
	}
}

// segmentSize leaves room for two segments of each connection: one that is fetched, and one that waits to be read.
func (w *window) segmentSize() int64 {
	return max(minSegment, w.source.windowBytes/int64(2*w.pace.connections))
}

// minSegment is the least number of bytes for which a request is worth its latency.
const minSegment = 64 << 10

// start starts the next segment, if the memory allows.
func (w *window) start() bool {
	size := w.segmentSize()
	buf := w.buffer(size)
	if buf == nil {
		return false
	}
	ctx, cancel := context.WithCancel(w.ctx)
	s := newSegment(w.next, buf[:min(size, w.end-w.next)], cancel)
	w.next = s.end()
	w.queue = append(w.queue, s)
	w.running.Go(func() { s.fetch(ctx, w.source) })
	return true
}

// buffer answers a buffer of so many bytes, or none.
func (w *window) buffer(size int64) []byte {
	for len(w.free) > 0 {
		b := w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
		if int64(cap(b)) == size {
			return b[:size]
		}
		w.held -= int64(cap(b))
	}
	if w.held > 0 && w.held+size > w.source.windowBytes {
		return nil
	}
	w.held += size
	return make([]byte, size)
}

// recycle keeps a buffer for later.
func (w *window) recycle(b []byte) { w.free = append(w.free, b) }

// drop gives up all that was asked for ahead.
func (w *window) drop() {
	for _, s := range w.queue {
		s.cancel()
		w.held -= int64(cap(s.buf))
	}
	w.queue = nil
	w.running.Wait()
}
