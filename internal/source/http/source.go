package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

// userAgent is what servers see in their logs.
const userAgent = "vmdisk"

// httpSource implements source.Source.
type httpSource struct {
	client         *http.Client
	url            *url.URL // without user
	header         http.Header
	user, password string
	timeouts       Timeouts
	advice         Advice
	pause          func(context.Context, time.Duration) error

	head int64 // bytes; 0: all

	object   object
	first    *response // Describe's answer, until Open takes it
	firstEnd int64     // where it ends, in bytes, or source.Unknown
}

// object is what is known of what the URL names.
type object struct {
	length    int64 // bytes, or source.Unknown
	ranges    bool
	validator validator
}

// Describe implements source.Source. It asks for the whole object as a range, or for its first Head bytes, so that the
// answer tells whether ranges are served, and keeps that answer for Open.
func (s *httpSource) Describe(ctx context.Context) (source.Description, error) {
	wanted := "bytes=0-"
	if s.head > 0 {
		wanted = fmt.Sprintf("bytes=0-%d", s.head-1)
	}
	r, err := s.get(ctx, wanted, validator{})
	if err != nil {
		return source.Description{}, err
	}
	if refusesRange(r.StatusCode) {
		r.close()
		if r, err = s.get(ctx, "", validator{}); err != nil {
			return source.Description{}, err
		}
	}
	s.object = object{length: source.Unknown, validator: readValidator(r.Header)}
	s.firstEnd = source.Unknown
	switch r.StatusCode {
	case http.StatusPartialContent:
		part, err := parseContentRange(r)
		if err != nil || part.first != 0 || s.head == 0 && part.total != source.Unknown && part.last != part.total-1 {
			r.close()
			return source.Description{}, badAnswer(r, "it was asked for %s and answered with Content-Range %q", wanted, r.Header.Get("Content-Range"))
		}
		s.firstEnd = part.last + 1
		s.object.length = part.total
		s.object.ranges = part.total != source.Unknown && !s.object.validator.isZero()
	case http.StatusOK:
		s.object.length = max(r.ContentLength, source.Unknown)
	default:
		r.close()
		return source.Description{}, classifyStatus(r.Response, s.advice)
	}
	s.first = r
	return source.Description{
		Name: redact(s.url), Length: s.object.length, Ranges: s.object.ranges, Validator: s.object.validator.String(),
	}, nil
}

// refusesRange knows the answers of servers that don't like a range request, or for which nothing can be a range of an
// empty object.
func refusesRange(status int) bool {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable, http.StatusBadRequest, http.StatusNotImplemented:
		return true
	}
	return false
}

// Open implements source.Source.
func (s *httpSource) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	b := &body{source: s, ctx: ctx, offset: offset, mendedAt: offset, end: s.object.length}
	if length >= 0 {
		b.end = offset + length
		if s.object.length >= 0 {
			b.end = min(b.end, s.object.length)
		}
	}
	if offset == 0 && s.first != nil && s.firstServes(b.end) {
		b.response, s.first = s.first, nil
		return b, nil
	}
	if b.end >= 0 && offset >= b.end {
		return b, nil // nothing to ask for
	}
	r, err := s.reopen(ctx, offset, b.end)
	if err != nil {
		return nil, err
	}
	b.response = r
	return b, nil
}

// firstServes reports whether Describe's answer has the bytes up to end and not many more. Where the server has no
// ranges there is no other way to get them.
func (s *httpSource) firstServes(end int64) bool {
	switch {
	case s.head == 0:
		return end == s.object.length || !s.object.ranges
	case !s.object.ranges && s.firstEnd == source.Unknown:
		return true
	default:
		return end >= 0 && end <= s.firstEnd
	}
}

// Close implements source.Source.
func (s *httpSource) Close() error {
	if s.first != nil {
		s.first.close()
		s.first = nil
	}
	s.client.CloseIdleConnections()
	return nil
}

// reopen asks for the bytes from offset to end of the object that Describe saw. A negative end is the object's.
func (s *httpSource) reopen(ctx context.Context, offset, end int64) (*response, error) {
	if !s.object.ranges {
		if offset != 0 {
			return nil, fmt.Errorf("open %s at offset %d: the server has no ranges", redact(s.url), offset)
		}
		r, err := s.get(ctx, "", validator{})
		if err != nil {
			return nil, err
		}
		return orClose(r, s.checkWhole(r))
	}
	r, err := s.get(ctx, fmt.Sprintf("bytes=%d-%d", offset, end-1), s.object.validator)
	if err != nil {
		return nil, err
	}
	return orClose(r, s.checkPart(r, offset, end))
}

// orClose answers r, or closes it where there is an error.
func orClose(r *response, err error) (*response, error) {
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// checkWhole checks an answer with the whole object.
func (s *httpSource) checkWhole(r *response) error {
	if r.StatusCode != http.StatusOK {
		return classifyStatus(r.Response, s.advice)
	}
	if r.ContentLength >= 0 && s.object.length >= 0 && r.ContentLength != s.object.length || !s.object.validator.agrees(readValidator(r.Header)) {
		return s.changed()
	}
	return nil
}

// checkPart checks an answer with the bytes from offset to end.
func (s *httpSource) checkPart(r *response, offset, end int64) error {
	switch r.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return s.changed() // what If-Range is for (RFC 9110, section 13.1.5)
	default:
		return classifyStatus(r.Response, s.advice)
	}
	part, err := parseContentRange(r)
	if err != nil || part.first != offset || part.last != end-1 {
		return badAnswer(r, "it was asked for bytes %d to %d and answered with Content-Range %q", offset, end-1, r.Header.Get("Content-Range"))
	}
	if part.total != source.Unknown && part.total != s.object.length || !s.object.validator.agrees(readValidator(r.Header)) {
		return s.changed()
	}
	return nil
}

// changed is the error of an object that is not what it was when the attempt began.
func (s *httpSource) changed() error {
	return &source.Error{Reason: source.Changed, Message: fmt.Sprintf("%s changed while it was being read; the next attempt begins again", redact(s.url))}
}

func badAnswer(r *response, format string, args ...any) error {
	return &source.Error{Reason: source.BadAnswer, Message: fmt.Sprintf("no usable answer from %s: ", redact(r.Request.URL)) + fmt.Sprintf(format, args...)}
}

// response is an answer whose body is watched: where nothing comes for the idle time, reading it fails.
type response struct {
	*http.Response
	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	idle     time.Duration
}

// errIdle is the cause with which the watchdog ends a request.
var errIdle = errors.New("no bytes for too long")

// get sends a request; rangeValue is the Range header, if any. Whatever status is answered is not an error.
func (s *httpSource) get(ctx context.Context, rangeValue string, v validator) (*response, error) {
	watched, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(watched, http.MethodGet, s.url.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("make request for %s: %w", redact(s.url), err)
	}
	s.setHeaders(req, rangeValue, v)
	r, err := s.client.Do(req) //nolint:bodyclose // the response's close does; the transport has the timeouts until the answer begins
	if err != nil {
		cancel(nil)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("ask %s: %w", redact(s.url), ctx.Err())
		}
		return nil, classify(err, s.from(err), s.advice)
	}
	watchdog := time.AfterFunc(s.timeouts.Idle, func() { cancel(errIdle) })
	watchdog.Stop() // until the body is read
	return &response{Response: r, cancel: cancel, watchdog: watchdog, idle: s.timeouts.Idle}, nil
}

// from is the URL at which a request failed, which redirects may have changed.
func (s *httpSource) from(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		if at, parseErr := url.Parse(u.URL); parseErr == nil {
			return redact(at)
		}
	}
	return redact(s.url)
}

func (s *httpSource) setHeaders(req *http.Request, rangeValue string, v validator) {
	req.Header = s.header.Clone()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", userAgent)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Del("Range")
	req.Header.Del("If-Range")
	if rangeValue != "" {
		req.Header.Set("Range", rangeValue)
		if condition := v.condition(); condition != "" {
			req.Header.Set("If-Range", condition)
		}
	}
	if s.user != "" || s.password != "" {
		req.SetBasicAuth(strings.TrimSpace(s.user), strings.TrimSpace(s.password))
	}
}

// Read reads the body.
func (r *response) Read(p []byte) (int, error) {
	r.watchdog.Reset(r.idle)
	n, err := r.Body.Read(p)
	r.watchdog.Stop()
	if err != nil && err != io.EOF && errors.Is(context.Cause(r.Request.Context()), errIdle) {
		from := redact(r.Request.URL)
		return n, &source.Error{Reason: source.Timeout, Err: err, Message: fmt.Sprintf("no bytes came from %s for %s", from, r.idle)}
	}
	return n, err
}

func (r *response) close() {
	r.watchdog.Stop()
	r.cancel(nil)
	_ = r.Body.Close() // only read from, and the request is over
}
