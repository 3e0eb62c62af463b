package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

const (
	// maxMends is how often a connection is mended without progressBytes having come in between.
	maxMends      = 5
	progressBytes = 1 << 20

	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second
)

// body is an object's bytes from an offset on, over as many connections as that takes.
type body struct {
	source   *httpSource
	ctx      context.Context // of the Open that made it
	response *response       // nil between two connections
	offset   int64           // of the next byte
	end      int64           // or source.Unknown

	mends    int   // since progress was made
	mendedAt int64 // the offset of the last mending
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for {
		if b.end >= 0 && b.offset >= b.end {
			return 0, io.EOF
		}
		if b.end >= 0 {
			p = p[:min(int64(len(p)), b.end-b.offset)]
		}
		if len(p) == 0 {
			return 0, nil
		}
		n, err := b.response.Read(p)
		b.offset += int64(n)
		if err == nil {
			return n, nil
		}
		if err = b.mend(err); err != nil {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// mend continues after the reading of an answer has ended with err. It answers io.EOF where that was the whole, and an
// error where it can't continue.
func (b *body) mend(err error) error {
	atEnd := err == io.EOF //nolint:errorlint // a wrapped one is a failure
	if atEnd && (b.end < 0 || b.offset >= b.end) {
		return io.EOF
	}
	from := redact(b.source.url)
	if ctxErr := b.ctx.Err(); ctxErr != nil {
		return fmt.Errorf("read %s: %w", from, ctxErr)
	}
	if atEnd {
		err = io.ErrUnexpectedEOF
	}
	cause := classify(err, from, b.source.advice)
	if !b.source.object.ranges {
		return b.broken(cause, "the server can't continue where it stopped")
	}
	if b.offset-b.mendedAt >= progressBytes {
		b.mends = 0
	}
	b.mendedAt = b.offset
	for ; b.mends < maxMends; b.mends++ {
		b.response.close()
		if err := b.source.pause(b.ctx, min(firstPause<<b.mends, maxPause)); err != nil {
			return fmt.Errorf("read %s: %w", from, err)
		}
		r, err := b.source.reopen(b.ctx, b.offset, b.end)
		if err == nil {
			b.response = r
			b.mends++
			return nil
		}
		var e *source.Error
		if !errors.As(err, &e) || e.Permanent || e.Reason == source.Changed {
			return err
		}
		cause = e
	}
	return b.broken(cause, fmt.Sprintf("%d tries to continue did not help", maxMends))
}

// broken is the error of a body that ended too early.
func (b *body) broken(cause *source.Error, why string) error {
	total := ""
	if b.end >= 0 {
		total = fmt.Sprintf(" of %d", b.end)
	}
	return &source.Error{
		Reason: cause.Reason, RetryAfter: cause.RetryAfter, Err: cause,
		Message: fmt.Sprintf("%s (after %d%s bytes; %s)", cause.Message, b.offset, total, why),
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	if b.response != nil {
		b.response.close()
		b.response = nil
	}
	return nil
}
