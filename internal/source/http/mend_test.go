package http_test

import (
	"bytes"
	"context"
	"errors"
	nethttp "net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

func TestABrokenConnectionIsMended(t *testing.T) {
	tests := map[string]struct {
		behaviour sourcetest.Behaviour
		want      *source.Error // nil: everything is read
		requests  int
	}{
		"as often as it makes progress": {
			behaviour: sourcetest.Behaviour{CutAfter: 1<<20 + 1},
			requests:  4,
		},
		"by Last-Modified": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 21, LastModified: true},
			requests:  2,
		},
		"over a server that is busy for a while": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, Cuts: 1, Status: []int{0, 503, 429}},
			requests:  4,
		},
		"but not for ever": {
			behaviour: sourcetest.Behaviour{CutAfter: 1000},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 10000 of 3200000 bytes; 9 tries to continue did not help)"},
			requests:  10,
		},
		"but not with another object": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, ChangeAfter: 1},
			want:      &source.Error{Reason: source.Changed, Message: "$URL changed while it was being read; the next attempt begins again"},
			requests:  2,
		},
		"but not with another object from a server that ignores If-Range": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, ChangeAfter: 1, IgnoreIfRange: true},
			want:      &source.Error{Reason: source.Changed, Message: "$URL changed while it was being read; the next attempt begins again"},
			requests:  2,
		},
		"but not where the server has no ranges": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, NoRange: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 of 3200000 bytes; the server can't continue where it stopped: it has no ranges)"},
			requests:  1,
		},
		"but not where a chunked answer was cut": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, NoRange: true, Chunked: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 bytes; the server can't continue where it stopped: it has no ranges)"},
			requests:  1,
		},
		"but not where the server names no version": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, NoValidator: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 of 3200000 bytes; the server can't continue where it stopped: it doesn't name the version of what it sends (no ETag that is strong, no Last-Modified))"},
			requests:  1,
		},
		"but not by a tag that is weak": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, WeakETag: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 of 3200000 bytes; the server can't continue where it stopped: it doesn't name the version of what it sends (no ETag that is strong, no Last-Modified))"},
			requests:  1,
		},
		"but not by Last-Modified of an object that may just have been changed": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, JustModified: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 of 3200000 bytes; the server can't continue where it stopped: it doesn't name the version of what it sends well enough (no ETag that is strong, and by its Date and Last-Modified the file may just have been changed))"},
			requests:  1,
		},
		"but not by Last-Modified without a Date": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, LastModified: true, NoDate: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 of 3200000 bytes; the server can't continue where it stopped: it doesn't name the version of what it sends well enough (no ETag that is strong, and by its Date and Last-Modified the file may just have been changed))"},
			requests:  1,
		},
		"over an object that is not there for a moment": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, Cuts: 1, Status: []int{0, 404}},
			requests:  3,
		},
		"but not where the object is gone, and then the next attempt says that for good": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, Status: append([]int{0}, slices.Repeat([]int{404}, 9)...)},
			want:      &source.Error{Reason: source.NotFound, Message: "404 Not Found from $URL (after 1048576 of 3200000 bytes; 9 tries to continue did not help)"},
			requests:  10,
		},
		"but not against a server that wants to be left alone for long": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, Status: []int{0, 503}, Header: nethttp.Header{"Retry-After": {"3600"}}},
			want:      &source.Error{Reason: source.ServerError, RetryAfter: time.Hour, Message: "503 Service Unavailable from $URL (after 1048576 of 3200000 bytes; the server wants to be left alone for 1h0m0s)"},
			requests:  2,
		},
		"after parts that are shorter than asked for, at no cost": {
			behaviour: sourcetest.Behaviour{MaxPart: 20_000},
			requests:  160,
		},
		"where the server has announced more than it sends": {
			behaviour: sourcetest.Behaviour{NoRange: true, LengthOff: 10},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 3200000 of 3200010 bytes; the server can't continue where it stopped: it has no ranges)"},
			requests:  1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.behaviour.Content = content
			server := sourcetest.Serve(t, test.behaviour)
			_, b, err := readAll(t.Context(), open(t, http.Options{URL: server.URL}))
			requireError(t, err, test.want, server.URL)
			if test.want == nil && !bytes.Equal(b, content) {
				t.Error("not the content")
			}
			if !bytes.HasPrefix(content, b) {
				t.Error("what was read before the error is not the content")
			}
			if got := len(server.Requests()); got != test.requests {
				t.Errorf("%d requests, want %d: %q", got, test.requests, server.Requests())
			}
		})
	}
}

func TestAStalledServerIsGivenUp(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, StallAfter: 1 << 20, NoRange: true})
	_, _, err := readAll(t.Context(), open(t, http.Options{URL: server.URL, Timeouts: http.Timeouts{Idle: 50 * time.Millisecond}}))
	requireError(t, err, &source.Error{
		Reason:  source.Timeout,
		Message: "no bytes came from $URL for 50ms (after 1048576 of 3200000 bytes; the server can't continue where it stopped: it has no ranges)",
	}, server.URL)
}

func TestTheServersWishIsObeyedWhileMending(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{
		Content: content, CutAfter: 1 << 20, Cuts: 1, Status: []int{0, 503}, Header: nethttp.Header{"Retry-After": {"7"}},
	})
	var paused []time.Duration
	s, err := http.New(http.Options{URL: server.URL, Pause: func(_ context.Context, d time.Duration) error {
		paused = append(paused, d)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, b, err := readAll(t.Context(), s); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if diff := cmp.Diff([]time.Duration{0, 7 * time.Second}, paused); diff != "" {
		t.Error(diff)
	}
}

func TestPausesGrow(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, CutAfter: 1000})
	var paused []time.Duration
	s, err := http.New(http.Options{URL: server.URL, Pause: func(_ context.Context, d time.Duration) error {
		paused = append(paused, d/time.Millisecond)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := readAll(t.Context(), s); err == nil {
		t.Error("it was read")
	}
	if diff := cmp.Diff([]time.Duration{0, 200, 400, 800, 1600, 3200, 6400, 12800, 15000}, paused); diff != "" {
		t.Error(diff)
	}
}

func TestAStalledConnectionIsMended(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, StallAfter: 1<<20 + 1})
	_, b, err := readAll(t.Context(), open(t, http.Options{URL: server.URL, Timeouts: http.Timeouts{Idle: 50 * time.Millisecond}}))
	if err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestAServerThatSendsMoreThanItSaidIsFoundOut(t *testing.T) {
	for name, b := range map[string]sourcetest.Behaviour{
		"than its Content-Range": {LengthOff: 10},
		"less than it, too":      {LengthOff: -10},
	} {
		t.Run(name, func(t *testing.T) {
			b.Content = content
			server := sourcetest.Serve(t, b)
			_, _, err := readAll(t.Context(), open(t, http.Options{URL: server.URL}))
			var got *source.Error
			if !errors.As(err, &got) || got.Reason != source.BadAnswer || !strings.Contains(got.Message, `and its Content-Range "bytes 0-3199999/3200000"`) {
				t.Errorf("got %v", err)
			}
		})
	}
}
