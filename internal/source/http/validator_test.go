package http

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/source"
)

func TestContentRange(t *testing.T) {
	tests := map[string]*contentRange{ // nil: refused
		"bytes 0-9/10":                  {0, 9, 10},
		"bytes 5-5/10":                  {5, 5, 10},
		"Bytes 5-9/*":                   {5, 9, source.Unknown},
		"bytes 0-10/10":                 nil,
		"bytes 5-4/10":                  nil,
		"bytes */10":                    nil,
		"bytes -1-4/10":                 nil,
		"bytes 0-9223372036854775808/*": nil,
		"lines 0-9/10":                  nil,
		"bytes 0-9":                     nil,
		"":                              nil,
	}
	for text, want := range tests {
		got, err := parseContentRange(text)
		if (err == nil) != (want != nil) {
			t.Errorf("%q: got %v, %v", text, got, err)
		} else if want != nil && got != *want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestValidatorsAgree(t *testing.T) {
	tests := map[string]struct {
		first, later validator
		want         bool
	}{
		"the same tag":                       {validator{etag: `"1"`}, validator{etag: `"1"`}, true},
		"another tag":                        {validator{etag: `"1"`}, validator{etag: `"2"`}, false},
		"another tag of the same date":       {validator{etag: `"1"`, modified: "Mon"}, validator{etag: `"2"`, modified: "Mon"}, false},
		"the same tag of another date":       {validator{etag: `"1"`, modified: "Mon"}, validator{etag: `"1"`, modified: "Tue"}, true},
		"another date":                       {validator{modified: "Mon"}, validator{modified: "Tue"}, false},
		"a part that doesn't repeat the tag": {validator{etag: `"1"`}, validator{}, true},
		"a part with another date only":      {validator{etag: `"1"`, modified: "Mon"}, validator{modified: "Tue"}, false},
	}
	for name, test := range tests {
		if got := test.first.agrees(test.later); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWhatIsWeakIsNoCondition(t *testing.T) {
	const noon, later, soon = "Mon, 30 Nov 2026 12:00:00 GMT", "Mon, 30 Nov 2026 12:01:00 GMT", "Mon, 30 Nov 2026 12:00:59 GMT"
	for name, test := range map[string]struct {
		etag, modified, date string
		want                 string
	}{
		"a tag":                                  {`"1"`, "", noon, `"1"`},
		"a weak tag":                             {`W/"1"`, "", noon, ""},
		"a weak tag, and a minute passed":        {`W/"1"`, noon, later, noon},
		"a weak tag, and a minute hasn't passed": {`W/"1"`, noon, soon, ""},
		"a tag of what was changed just now":     {`"1"`, noon, noon, `"1"`},
		"a minute passed":                        {"", noon, later, noon},
		"a minute hasn't passed":                 {"", noon, soon, ""},
		"changed in the future":                  {"", later, noon, ""},
		"no date":                                {"", noon, "", ""},
		"no date that can be read":               {"", noon, "today", ""},
		"no change that can be read":             {"", "Monday", later, ""},
		"nothing":                                {"", "", later, ""},
	} {
		h := http.Header{}
		for key, value := range map[string]string{"ETag": test.etag, "Last-Modified": test.modified, "Date": test.date} {
			if value != "" {
				h.Set(key, value)
			}
		}
		if diff := cmp.Diff(test.want, readValidator(h).condition()); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                              0,
		"120":                           2 * time.Minute,
		" 5 ":                           5 * time.Second,
		"-5":                            0,
		"99999999":                      maxRetryAfter,
		"999999999999999999999":         0,
		"Mon, 30 Nov 2026 12:01:00 GMT": time.Minute,
		"Mon, 30 Nov 2026 11:59:00 GMT": 0,
		"soon":                          0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
