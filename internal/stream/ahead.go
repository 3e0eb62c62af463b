package stream

import (
	"io"
	"sync"
)

// aheadParts is how many buffers an Ahead has: one that is read, one that is filled, and one between them.
const aheadParts = 3

// Ahead is a reader whose bytes are fetched by a goroutine of its own, so that what makes them and what uses them work at
// the same time.
type Ahead struct {
	full    chan part
	free    chan []byte
	stop    chan struct{}
	once    sync.Once
	group   sync.WaitGroup
	current part
	taken   int // bytes of current
}

// part is bytes and what came behind them.
type part struct {
	data  []byte
	err   error
	panic any
}

// ReadAhead answers an Ahead that reads r in parts of the given length in bytes. It must be closed.
func ReadAhead(r io.Reader, length int) *Ahead {
	a := &Ahead{full: make(chan part, aheadParts), free: make(chan []byte, aheadParts), stop: make(chan struct{})}
	for range aheadParts {
		a.free <- make([]byte, length)
	}
	a.group.Go(func() { a.run(r) })
	return a
}

// run fills parts until r ends. There is always room in full.
func (a *Ahead) run(r io.Reader) {
	defer func() {
		if fault := recover(); fault != nil {
			a.full <- part{panic: fault}
		}
	}()
	for {
		var p part
		select {
		case p.data = <-a.free:
		case <-a.stop:
			return
		}
		n := 0
		for n < len(p.data) && p.err == nil {
			var more int
			more, p.err = r.Read(p.data[n:])
			n += more
		}
		p.data = p.data[:n]
		a.full <- p
		if p.err != nil {
			return
		}
	}
}

// Read implements io.Reader. A panic of the reader below is raised again here, where somebody expects it.
func (a *Ahead) Read(p []byte) (int, error) {
	for a.taken == len(a.current.data) {
		switch {
		case a.current.panic != nil:
			panic(a.current.panic)
		case a.current.err != nil:
			return 0, a.current.err
		case a.current.data != nil:
			a.free <- a.current.data[:cap(a.current.data)]
		}
		a.current, a.taken = <-a.full, 0
	}
	n := copy(p, a.current.data[a.taken:])
	a.taken += n
	return n, nil
}

// Close waits until nothing is read any more. It doesn't close the reader below.
func (a *Ahead) Close() error {
	a.once.Do(func() { close(a.stop) })
	a.group.Wait()
	return nil
}
