package stream

import (
	"io"
	"sync"
)

// Origin is what a decoder reads from. It remembers with which error it ended, so that what reads through the decoder can
// tell a stream that is wrong from a source that has failed, whatever the decoder makes of it; and it ends a stream that goes
// on and on while nothing comes out of the decoder. It is safe for a decoder that reads in a goroutine of its own.
type Origin struct {
	r      io.Reader
	most   int64 // bytes that may be read without any coming out; 0 for any number
	mu     sync.Mutex
	barren int64 // bytes since some came out
	err    error
}

// Remember wraps r in an Origin. Where barrenBytes isn't 0, it ends with a *FormatError when more bytes than that were read
// between two calls of Fruitful.
func Remember(r io.Reader, barrenBytes int64) *Origin { return &Origin{r: r, most: barrenBytes} }

// Read implements io.Reader.
func (o *Origin) Read(p []byte) (int, error) {
	if err := o.checkBarren(); err != nil {
		return 0, err
	}
	n, err := o.r.Read(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.barren += int64(n)
	if err != nil && err != io.EOF { // a wrapped one is a failure
		o.err = err
	}
	return n, err
}

func (o *Origin) checkBarren() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.most == 0 || o.barren <= o.most {
		return nil
	}
	o.err = FormatErrorf(Corrupt, "more than %d MiB of the file have nothing in them: it was made to keep its reader busy, or was put together wrongly", o.most>>20)
	return o.err
}

// Fruitful says that something came out of the decoder.
func (o *Origin) Fruitful() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.barren = 0
}

// Err is the error with which the reader has failed, nil where it hasn't. A good end is no failure.
func (o *Origin) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
