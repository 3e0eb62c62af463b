package http

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"vmdisk.io/vmdisk/internal/source"
)

// validator tells one version of an object from another (RFC 9110, section 8.8).
type validator struct{ etag, modified string }

func readValidator(h http.Header) validator {
	return validator{etag: h.Get("ETag"), modified: h.Get("Last-Modified")}
}

// strong reports whether it tells every two versions apart, so that parts of an object can be put together by it. A weak
// tag doesn't promise that (RFC 9110, section 8.8.1); a date, which has whole seconds, is taken at its word.
func (v validator) strong() bool { return v.condition() != "" }

// String is the validator for comparing one description with another.
func (v validator) String() string {
	if v.etag != "" {
		return v.etag
	}
	return v.modified
}

// condition is the value of If-Range, or nothing: a weak tag must not stand there (RFC 9110, section 13.1.5).
func (v validator) condition() string {
	if v.etag != "" && !strings.HasPrefix(v.etag, "W/") {
		return v.etag
	}
	return v.modified
}

// agrees reports whether a later answer is about the same version. A part need not repeat every validator (RFC 9110,
// section 15.3.7), so one that is missing there doesn't disagree.
func (v validator) agrees(later validator) bool {
	if v.etag != "" && later.etag != "" {
		return v.etag == later.etag
	}
	return v.modified == "" || later.modified == "" || v.modified == later.modified
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
