package transfer

import "sync"

// watermark is up to which mark everything was written that was handed over before. Batches are written in any order; it
// moves when the oldest one is done.
type watermark struct {
	// moved has a value after each move that nobody has seen yet.
	moved chan struct{}

	mu    sync.Mutex
	queue []*waiting // in the order of hand-over
	mark  int64      // of what was written
}

// waiting is a batch that was handed over.
type waiting struct {
	mark int64 // of its last piece
	done bool
}

func newWatermark(start int64) *watermark {
	return &watermark{moved: make(chan struct{}, 1), mark: start}
}

// add takes note of a batch that is handed over.
func (w *watermark) add(mark int64) *waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &waiting{mark: mark}
	w.queue = append(w.queue, b)
	return b
}

// pass takes note of a piece that need not be written, behind all batches so far.
func (w *watermark) pass(mark int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.queue); n > 0 {
		w.queue[n-1].mark = mark
		return
	}
	w.move(mark)
}

// finish takes note that a batch was written.
func (w *watermark) finish(b *waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.done = true
	for len(w.queue) > 0 && w.queue[0].done {
		w.move(w.queue[0].mark)
		w.queue = w.queue[1:]
	}
}

// move is called with mu held.
func (w *watermark) move(mark int64) {
	w.mark = mark
	select {
	case w.moved <- struct{}{}:
	default: // somebody will look anyhow
	}
}

// reached is the mark before which nothing is needed any more.
func (w *watermark) reached() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mark
}
