package stream

import (
	"io"
	"sync"
)

// Origin is a reader that remembers with which error it ended, so that what reads through a decoder can tell a stream
// that is wrong from a source that has failed, whatever the decoder makes of it. It is safe for a decoder that reads in a
// goroutine of its own.
type Origin struct {
	r   io.Reader
	mu  sync.Mutex
	err error
}

// Remember wraps r in an Origin.
func Remember(r io.Reader) *Origin { return &Origin{r: r} }

// Read implements io.Reader.
func (o *Origin) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if err != nil && err != io.EOF { // a wrapped one is a failure
		o.mu.Lock()
		o.err = err
		o.mu.Unlock()
	}
	return n, err
}

// Err is the error with which the reader has failed, nil where it hasn't. A good end is no failure.
func (o *Origin) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
