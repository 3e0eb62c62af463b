package http

import (
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
		"another tag of the same date":       {validator{`"1"`, "Mon"}, validator{`"2"`, "Mon"}, false},
		"the same tag of another date":       {validator{`"1"`, "Mon"}, validator{`"1"`, "Tue"}, true},
		"another date":                       {validator{modified: "Mon"}, validator{modified: "Tue"}, false},
		"a part that doesn't repeat the tag": {validator{etag: `"1"`}, validator{}, true},
		"a part with another date only":      {validator{`"1"`, "Mon"}, validator{modified: "Tue"}, false},
	}
	for name, test := range tests {
		if got := test.first.agrees(test.later); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAWeakTagIsNoCondition(t *testing.T) {
	for v, want := range map[validator]string{
		{etag: `"1"`}:                       `"1"`,
		{etag: `W/"1"`}:                     "",
		{etag: `W/"1"`, modified: "Monday"}: "Monday",
		{modified: "Monday"}:                "Monday",
	} {
		if diff := cmp.Diff(want, v.condition()); diff != "" {
			t.Error(v, diff)
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
