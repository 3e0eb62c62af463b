package stream

import (
	"io"
	"sync/atomic"
)

// Counter counts the bytes read through it. Bytes may be called from another goroutine than Read.
type Counter struct {
	r io.Reader
	n atomic.Int64
}

// Count wraps r in a Counter.
func Count(r io.Reader) *Counter { return &Counter{r: r} }

// Read implements io.Reader.
func (c *Counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Bytes is how many bytes have been read so far.
func (c *Counter) Bytes() int64 { return c.n.Load() }
