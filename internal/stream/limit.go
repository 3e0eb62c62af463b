package stream

import (
	"fmt"
	"io"
)

// TooLongError says that a stream went on after the number of bytes that it was allowed.
type TooLongError struct {
	LimitBytes int64
}

// Error implements error.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("more than %d bytes", e.LimitBytes)
}

// Limit answers a reader of at most n bytes of r. Unlike io.LimitReader it tells a stream that ends there, which ends
// with io.EOF, from one that goes on, which ends with a *TooLongError.
func Limit(r io.Reader, n int64) io.Reader { return &limiter{r: r, left: n, limit: n} }

type limiter struct {
	r           io.Reader
	left, limit int64
}

func (l *limiter) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, &TooLongError{LimitBytes: l.limit}
	}
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1] // one byte more, to see whether there is one
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return n - 1, &TooLongError{LimitBytes: l.limit}
	}
	return n, err
}
