package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

// request is what is asked for.
type request struct {
	bytes   string    // the range, such as "0-" or "5-9"; empty: the object without a range
	version validator // what the range must be of
	more    bool      // beside another one, over a connection of its own
}

// get sends a request where the object was last, and to the origin where it isn't there any more. Whatever status is
// answered is not an error.
func (s *httpSource) get(ctx context.Context, q request) (*response, error) {
	at, redirected := s.where()
	r, err := s.follow(ctx, at, q)
	if redirected && ctx.Err() == nil && (err != nil || !answers(r.StatusCode)) {
		if err == nil {
			r.close()
		}
		s.pin(nil)
		r, err = s.follow(ctx, s.origin(), q)
	}
	return r, err
}

// answers knows the statuses that say something of the object itself.
func answers(status int) bool {
	switch status {
	case http.StatusOK, http.StatusPartialContent, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return true
	}
	return false
}

// follow sends a request, and again where redirects lead to. It remembers the place where that ends well.
func (s *httpSource) follow(ctx context.Context, at place, q request) (*response, error) {
	first := at
	for n := 0; ; n++ {
		r, err := s.send(ctx, at, q)
		if err != nil {
			return nil, err
		}
		location := r.Header.Get("Location")
		if !redirects(r.StatusCode) || location == "" {
			if n > 0 && answers(r.StatusCode) {
				s.pin(&at)
			}
			return r, nil
		}
		r.discard()
		if at, err = s.next(at, location); err != nil {
			return nil, err
		}
		if n == maxRedirects {
			return nil, &source.Error{Reason: source.TooManyRedirects, Permanent: true, Message: fmt.Sprintf("more than %d redirects from %s, the last to %s", maxRedirects, redact(first.url), redact(at.url))}
		}
	}
}

// send sends a request to one place.
func (s *httpSource) send(ctx context.Context, at place, q request) (*response, error) {
	watched, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(watched, http.MethodGet, at.url.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, &source.Error{Reason: source.InvalidURL, Permanent: true, Err: err, Message: fmt.Sprintf("%s can't be asked: its URL is not one", redact(at.url))}
	}
	req.Header = s.headerFor(at, q)
	if at.host != "" {
		req.Host = at.host
	}
	transport := s.client
	if q.more {
		transport = s.more
	}
	r, err := transport.RoundTrip(req) //nolint:bodyclose // the response's close does; the transport has the timeouts until the answer begins
	if err != nil {
		cancel(nil)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask %s: %w", redact(at.url), ctx.Err())
		}
		return nil, s.texts.classify(err, redact(at.url))
	}
	watchdog := time.AfterFunc(s.timeouts.Idle, func() { cancel(errIdle) })
	watchdog.Stop() // until the body is read
	return &response{Response: r, at: at, until: source.Unknown, cancel: cancel, watchdog: watchdog, idle: s.timeouts.Idle}, nil
}

// response is an answer whose body is watched: where nothing comes for the idle time, reading it fails.
type response struct {
	*http.Response
	at    place
	until int64 // the offset in the object behind the last byte that was promised, or source.Unknown

	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	idle     time.Duration
}

// errIdle is the cause with which the watchdog ends a request.
var errIdle = errors.New("no bytes for too long")

// Read reads the body.
func (r *response) Read(p []byte) (int, error) {
	r.watchdog.Reset(r.idle)
	n, err := r.Body.Read(p)
	r.watchdog.Stop()
	if err != nil && err != io.EOF && errors.Is(context.Cause(r.Request.Context()), errIdle) {
		return n, &source.Error{Reason: source.Timeout, Err: errIdle, Message: fmt.Sprintf("no bytes came from %s for %s", redact(r.at.url), r.idle)}
	}
	return n, err
}

// maxDiscard is how many bytes of an answer that nobody needs are read, so that its connection can be used again.
const maxDiscard = 2 << 10

// discard reads a short body to its end, and closes it.
func (r *response) discard() {
	if r.ContentLength >= 0 && r.ContentLength <= maxDiscard {
		_, _ = io.Copy(io.Discard, io.LimitReader(r, maxDiscard+1)) // it only costs a connection
	}
	r.close()
}

func (r *response) close() {
	r.watchdog.Stop()
	r.cancel(nil)
	_ = r.Body.Close() // only read from, and the request is over
}
