package http

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

// validator tells one version of an object from another (RFC 9110, section 8.8).
type validator struct {
	etag, modified string
	// settled says that modified is strong.
	settled bool
}

// settledAfter is how long an object must have been left alone when it was sent, so that its Last-Modified, which has whole seconds,
// stands for one version only. RFC 9110, section 8.8.2.2, wants one second where both times are surely of one clock; a proxy's or
// a storage's may differ a little.
const settledAfter = time.Minute

func readValidator(h http.Header) validator {
	v := validator{etag: h.Get("ETag"), modified: h.Get("Last-Modified")}
	modified, err := http.ParseTime(v.modified)
	if err == nil {
		sent, dateErr := http.ParseTime(h.Get("Date"))
		v.settled = dateErr == nil && sent.Sub(modified) >= settledAfter
	}
	return v
}

// strong reports whether it tells every two versions apart, so that parts of an object can be put together by it. A weak tag
// doesn't promise that (RFC 9110, section 8.8.1), nor does the date of what was changed just now.
func (v validator) strong() bool { return v.condition() != "" }

// String is the validator for comparing one description with another.
func (v validator) String() string {
	if v.etag != "" {
		return v.etag
	}
	return v.modified
}

// condition is the value of If-Range, or nothing: what is weak must not stand there (RFC 9110, section 13.1.5).
func (v validator) condition() string {
	switch {
	case v.etag != "" && !strings.HasPrefix(v.etag, "W/"):
		return v.etag
	case v.settled:
		return v.modified
	default:
		return ""
	}
}

// agrees reports whether a later answer is about the same version. A part need not repeat every validator (RFC 9110,
// section 15.3.7), so one that is missing there doesn't disagree.
func (v validator) agrees(later validator) bool {
	if v.etag != "" && later.etag != "" {
		return v.etag == later.etag
	}
	return v.modified == "" || later.modified == "" || v.modified == later.modified
}

// same reports whether a later answer names the same version in the same words.
func (v validator) same(later validator) bool {
	return v.etag == later.etag && v.modified == later.modified
}

// contentRange is a Content-Range header (RFC 9110, section 14.4), in bytes.
type contentRange struct {
	first, last int64
	total       int64 // or source.Unknown
}

func parseContentRange(text string) (contentRange, error) {
	unit, rest, _ := strings.Cut(text, " ")
	span, total, found := strings.Cut(rest, "/")
	first, last, found2 := strings.Cut(span, "-")
	if !strings.EqualFold(unit, "bytes") || !found || !found2 {
		return contentRange{}, fmt.Errorf("Content-Range %q is not a range of bytes", text)
	}
	c := contentRange{total: source.Unknown}
	fields := []struct {
		text string
		to   *int64
	}{{first, &c.first}, {last, &c.last}, {total, &c.total}}
	for _, f := range fields {
		if f.text == "*" && f.to == &c.total {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(f.text), 10, 63)
		if err != nil {
			return contentRange{}, fmt.Errorf("Content-Range %q: %w", text, err)
		}
		*f.to = int64(n)
	}
	if c.last < c.first || c.total >= 0 && c.last >= c.total {
		return contentRange{}, fmt.Errorf("Content-Range %q contradicts itself", text)
	}
	return c, nil
}
