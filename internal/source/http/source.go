package http

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

// userAgent is what servers see in their logs.
const userAgent = "vmdisk"

// httpSource implements source.Source.
type httpSource struct {
	client, more   http.RoundTripper // for one request at a time, and for more beside it
	url            *url.URL          // without user
	header         http.Header
	user, password string
	timeouts       Timeouts
	texts          texts
	pause          func(context.Context, time.Duration) error
	now            func() time.Time
	head           int64 // bytes of the first request; 0: all
	windowBytes    int64
	pace           pace // of each window, at its beginning

	object object
	first  *response // Describe's answer, until Open takes it

	mu     sync.Mutex
	pinned *place // where redirects have led to
}

// object is what is known of what the URL names.
type object struct {
	length  int64 // bytes, or source.Unknown
	ranges  bool
	version validator
}

// Describe implements source.Source. It asks for the whole object as a range, or for its first Head bytes, so that the
// answer tells whether ranges are served, and keeps that answer for Open.
func (s *httpSource) Describe(ctx context.Context) (source.Description, error) {
	wanted := "0-"
	if s.head > 0 {
		wanted = fmt.Sprintf("0-%d", s.head-1)
	}
	r, err := s.get(ctx, request{bytes: wanted})
	if err != nil {
		return source.Description{}, err
	}
	if refusesRange(r.StatusCode) || r.StatusCode == http.StatusPartialContent && !begins(r) {
		r.close()
		if r, err = s.get(ctx, request{}); err != nil {
			return source.Description{}, err
		}
	}
	if s.object, err = s.examine(r); err != nil {
		r.close()
		return source.Description{}, err
	}
	s.first = r
	if r.StatusCode == http.StatusOK && s.mayHaveRanges(r) {
		s.object.ranges = true
		last, err := s.ask(ctx, request{}, s.object.length-1, s.object.length)
		if err == nil {
			last.close()
		}
		s.object.ranges = err == nil
	}
	return source.Description{
		Name: redact(s.url), Length: s.object.length, Ranges: s.object.ranges, Validator: s.object.version.String(),
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

// begins reports whether a part is the beginning of an object of which all the rest can be asked for, or is all of it.
func begins(r *response) bool {
	part, err := parseContentRange(r.Header.Get("Content-Range"))
	return err == nil && part.first == 0 && part.total != source.Unknown && (part.last == part.total-1 || readValidator(r.Header).strong())
}

// mayHaveRanges reports whether a server that answered a request for everything with no range, which is its right, says
// that it has ranges.
func (s *httpSource) mayHaveRanges(r *response) bool {
	return strings.EqualFold(r.Header.Get("Accept-Ranges"), "bytes") && s.object.length > 0 && s.object.version.strong()
}

// examine reads the header of the first answer.
func (s *httpSource) examine(r *response) (object, error) {
	o := object{length: source.Unknown, version: readValidator(r.Header)}
	switch r.StatusCode {
	case http.StatusPartialContent:
		part, err := parseContentRange(r.Header.Get("Content-Range"))
		if err != nil || !begins(r) {
			return o, s.badAnswer(r, "it was asked for everything and answered with Content-Range %q", r.Header.Get("Content-Range"))
		}
		o.length, o.ranges = part.total, o.version.strong()
		r.until = part.last + 1
		if r.ContentLength >= 0 && r.ContentLength != r.until {
			return o, s.badAnswer(r, "its Content-Length is %d and its Content-Range %q", r.ContentLength, r.Header.Get("Content-Range"))
		}
	case http.StatusOK:
		o.length = max(r.ContentLength, source.Unknown)
		r.until = o.length
	default:
		return o, s.refusal(r)
	}
	if coding := strings.Join(r.Header.Values("Content-Encoding"), ", "); !storable(coding) {
		return o, &source.Error{Reason: source.BadAnswer, Permanent: true, Message: fmt.Sprintf("%s is served with Content-Encoding %q, although it was asked for without: turn that off in the server for disk images", redact(s.url), coding)}
	}
	return o, nil
}

// storable reports whether a body in this Content-Encoding is what a file on the server, or one that its client stores,
// could be: no coding at all, or one that is a file's wrapper too. Servers name the latter for objects that are stored
// so (disk.img.gz), and others compress by themselves; both are told from the bytes.
func storable(codings string) bool {
	for coding := range strings.SplitSeq(codings, ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "", "identity", "binary", "none", "aws-chunked", "gzip", "x-gzip", "zstd", "xz", "x-xz", "bzip2", "x-bzip2":
		default:
			return false
		}
	}
	return true
}

// Open implements source.Source.
func (s *httpSource) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	end := s.object.length
	if length >= 0 {
		end = offset + length
		if s.object.length >= 0 {
			end = min(end, s.object.length)
		}
	}
	b := &body{source: s, ctx: ctx, offset: offset, mendedAt: offset, end: end}
	switch {
	case end >= 0 && offset >= end:
		return b, nil // nothing to ask for
	case offset == 0 && s.first != nil && (end < 0 || s.first.until <= end || !s.object.ranges):
		b.response, s.first = s.first, nil
	case !s.object.ranges && offset != 0:
		return nil, &source.Error{Reason: source.BadAnswer, Permanent: true, Message: fmt.Sprintf("the server of %s can't begin at byte %d: %s", redact(s.url), offset, s.whyNoRanges())}
	default:
		r, err := s.ask(ctx, request{}, offset, end)
		if err != nil {
			return nil, err
		}
		b.response = r
	}
	if length < 0 && s.object.ranges {
		return newWindow(ctx, b), nil
	}
	return b, nil
}

// Close implements source.Source.
func (s *httpSource) Close() error {
	if s.first != nil {
		s.first.close()
		s.first = nil
	}
	for _, t := range []http.RoundTripper{s.client, s.more} {
		if t, ok := t.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
	}
	return nil
}

// ask asks for the bytes from offset to end of the object that Describe saw, and checks the answer's header. It may be
// for fewer bytes; see until. A negative end is the object's.
func (s *httpSource) ask(ctx context.Context, q request, offset, end int64) (*response, error) {
	check := s.checkWhole
	if s.object.ranges {
		q.bytes, q.version = fmt.Sprintf("%d-%d", offset, end-1), s.object.version
		check = func(r *response) error { return s.checkPart(r, offset, end) }
	}
	r, err := s.get(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := check(r); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// checkWhole checks an answer with the whole object.
func (s *httpSource) checkWhole(r *response) error {
	if r.StatusCode != http.StatusOK {
		return s.refusal(r)
	}
	if r.ContentLength >= 0 && s.object.length >= 0 && r.ContentLength != s.object.length || !s.object.version.agrees(readValidator(r.Header)) {
		return s.changed()
	}
	r.until = r.ContentLength
	return nil
}

// checkPart checks an answer with the bytes from offset to end, or fewer.
func (s *httpSource) checkPart(r *response, offset, end int64) error {
	switch r.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		if r.ContentLength == s.object.length && s.object.version.same(readValidator(r.Header)) {
			return s.badAnswer(r, "it was asked for bytes %d to %d and answered with everything", offset, end-1)
		}
		return s.changed() // what If-Range is for (RFC 9110, section 13.1.5)
	case http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return s.changed()
	default:
		return s.refusal(r)
	}
	text := r.Header.Get("Content-Range")
	part, err := parseContentRange(text)
	if err != nil || part.first != offset || part.last >= end {
		return s.badAnswer(r, "it was asked for bytes %d to %d and answered with Content-Range %q", offset, end-1, text)
	}
	if part.total != source.Unknown && part.total != s.object.length || !s.object.version.agrees(readValidator(r.Header)) {
		return s.changed()
	}
	if n := part.last - part.first + 1; r.ContentLength >= 0 && r.ContentLength != n {
		return s.badAnswer(r, "its Content-Length is %d and its Content-Range %q", r.ContentLength, text)
	}
	r.until = part.last + 1
	return nil
}

// changed is the error of an object that is not what it was when the attempt began.
func (s *httpSource) changed() error {
	return &source.Error{Reason: source.Changed, Message: fmt.Sprintf("%s changed while it was being read; the next attempt begins again", redact(s.url))}
}

// whyNoRanges says why the object can only be read from its beginning, in one go.
func (s *httpSource) whyNoRanges() string {
	if s.object.version.strong() || s.object.length == source.Unknown {
		return "it has no ranges"
	}
	if s.object.version.modified != "" {
		return "it doesn't name the version of what it sends well enough (no ETag that is strong, and by its Date and Last-Modified the file may just have been changed)"
	}
	return "it doesn't name the version of what it sends (no ETag that is strong, no Last-Modified)"
}

func (s *httpSource) badAnswer(r *response, format string, args ...any) error {
	return &source.Error{Reason: source.BadAnswer, Message: fmt.Sprintf("no usable answer from %s: ", redact(r.at.url)) + fmt.Sprintf(format, args...)}
}
