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
	maxMends      = 9
	progressBytes = 64 << 10

	// The first try is made at once; then the pause is doubled each time.
	firstPause = 200 * time.Millisecond
	maxPause   = 15 * time.Second
	// maxObeyed is the longest Retry-After that is waited for with what has been read so far at hand.
	maxObeyed = 5 * time.Minute
)

// body is an object's bytes from an offset on, over one connection at a time, and as many as that takes.
type body struct {
	source   *httpSource
	ctx      context.Context // of the Open that made it
	response *response       // nil before the first and between two connections
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
		n, err := b.readResponse(p)
		b.offset += int64(n)
		if err == nil {
			return n, nil
		}
		if err = b.goOn(err); err != nil {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// readResponse reads from the present answer, and not more of it than it promised.
func (b *body) readResponse(p []byte) (int, error) {
	if left := b.response.until - b.offset; b.response.until >= 0 {
		if left <= 0 {
			return 0, io.EOF
		}
		p = p[:min(int64(len(p)), left)]
	}
	return b.response.Read(p)
}

// goOn continues after the reading of an answer has ended with err. It answers io.EOF where that was the whole, and an
// error where it can't continue.
func (b *body) goOn(err error) error {
	if err != io.EOF { //nolint:errorlint // a wrapped one is a failure
		return b.mend(err)
	}
	switch {
	case b.end < 0 || b.offset >= b.end:
		return io.EOF
	case b.response.until >= 0 && b.offset >= b.response.until && b.source.object.ranges: // all of a part that was shorter than asked for
		b.response.close()
		r, err := b.source.ask(b.ctx, request{}, b.offset, b.end)
		if err != nil {
			return b.mend(err)
		}
		b.response = r
		return nil
	default:
		return b.mend(io.ErrUnexpectedEOF)
	}
}

// mend asks for the rest after a failure, until that succeeds or seems to be in vain.
func (b *body) mend(err error) error {
	from := redact(b.source.url)
	if ctxErr := b.ctx.Err(); ctxErr != nil {
		return fmt.Errorf("read %s: %w", from, ctxErr)
	}
	cause := b.source.texts.classify(err, from)
	if !b.source.object.ranges {
		return b.broken(cause, "the server can't continue where it stopped: "+b.source.whyNoRanges())
	}
	if b.offset-b.mendedAt >= progressBytes {
		b.mends = 0
	}
	b.mendedAt = b.offset
	for ; b.mends < maxMends; b.mends++ {
		if cause.Reason == source.Changed {
			return cause
		}
		if cause.RetryAfter > maxObeyed {
			return b.broken(cause, fmt.Sprintf("the server wants to be left alone for %s", cause.RetryAfter))
		}
		if b.response != nil {
			b.response.close()
		}
		if err := b.source.pause(b.ctx, max(cause.RetryAfter, backoff(b.mends))); err != nil {
			return fmt.Errorf("read %s: %w", from, err)
		}
		r, err := b.source.ask(b.ctx, request{}, b.offset, b.end)
		if err == nil {
			b.response = r
			b.mends++
			return nil
		}
		if !errors.As(err, &cause) { // ctx is done
			return err
		}
	}
	if cause.Reason == source.Changed {
		return cause
	}
	return b.broken(cause, fmt.Sprintf("%d tries to continue did not help", maxMends))
}

// backoff is the pause before a try, of which so many have gone before.
func backoff(tries int) time.Duration {
	if tries == 0 {
		return 0
	}
	return min(firstPause<<(tries-1), maxPause)
}

// broken is the error of a body that ended too early. It is never permanent: what was there a moment ago may be there
// again, and if not, the next attempt's first request tells.
func (b *body) broken(cause *source.Error, why string) error {
	total := ""
	if length := b.source.object.length; length >= 0 {
		total = fmt.Sprintf(" of %d", length)
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
