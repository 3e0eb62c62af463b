package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// eager are rules by which more connections are tried at once, and are always found to help.
func eager() paceRules { return paceRules{period: 1, starved: -1, rest: 1} }

// windowContent is ASCII, and no two of its parts are the same.
func windowContent() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 16<<20; i++ {
		fmt.Fprintf(&b, "%015d\n", i)
	}
	return b.Bytes()
}

// eagerSource reads a server with a window of 1 MiB over 4 connections.
func eagerSource(t *testing.T, url string, rules paceRules) *httpSource {
	t.Helper()
	s, err := New(Options{URL: url, WindowBytes: 1 << 20, Connections: 4, Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	h := s.(*httpSource)
	h.pace.rules = rules
	return h
}

// await waits until the scout is answered, or fails; else a reader that has nothing else to do would be past it.
func await(w *window) {
	for w.scouting {
		if _, answered, err := w.queue[0].state(); answered || err != nil {
			return
		}
		<-w.queue[0].more
	}
}

// readWindow reads all of an object, some at a time, and calls each before each read. It answers what it took, too: how
// many segments there were at most, and how many bytes were held.
func readWindow(t *testing.T, s *httpSource, each func(*window)) (got []byte, segments int, held int64, err error) {
	t.Helper()
	if _, err := s.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context(), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if closeErr := r.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	}()
	w := r.(*window)
	for p := make([]byte, 30_000); err == nil; {
		each(w)
		var n int
		n, err = r.Read(p)
		got = append(got, p[:n]...)
		segments = max(segments, len(w.queue))
		held = max(held, w.held)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return got, segments, held, err
}

func TestAWindowIsReadInOrder(t *testing.T) {
	content := windowContent()
	for name, b := range map[string]sourcetest.Behaviour{
		"from a good server":                        {},
		"from one that sends in chunks":             {Chunked: true},
		"from one that sends shorter parts":         {MaxPart: 100_001},
		"from one that cuts connections":            {CutAfter: 300_000},
		"from one that refuses most requests":       {Check: everyThird(429)},
		"from one that has no more than some":       {Check: everyThird(503)},
		"from one that loses the object in between": {Check: everyThird(404)},
	} {
		t.Run(name, func(t *testing.T) {
			b.Content = content
			s := eagerSource(t, sourcetest.Serve(t, b).URL, eager())
			got, segments, held, err := readWindow(t, s, await)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, content) {
				t.Error("not the content")
			}
			if segments < 2 {
				t.Error("nothing was fetched ahead")
			}
			if held > 1<<20 {
				t.Errorf("%d bytes were held", held)
			}
		})
	}
}

// TestConnectionsBesideTheStreamAreTheirOwn has a server that speaks HTTP/2, whose requests would share one connection.
func TestConnectionsBesideTheStreamAreTheirOwn(t *testing.T) {
	content := windowContent()
	var mu sync.Mutex
	connections := map[string]int{} // by client, the version spoken
	server := sourcetest.ServeHTTP2(t, sourcetest.Behaviour{Content: content, Check: func(r *nethttp.Request) int {
		mu.Lock()
		defer mu.Unlock()
		connections[r.RemoteAddr] = r.ProtoMajor
		return 0
	}})
	s, err := New(Options{URL: server.URL, WindowBytes: 1 << 20, Connections: 4, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := s.(*httpSource)
	h.pace.rules = eager()
	got, _, _, err := readWindow(t, h, await)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatal(err)
	}
	versions := map[int]int{}
	for _, v := range connections {
		versions[v]++
	}
	// Now and then one is made that nobody needs, because another was free by then.
	if requests := len(server.Requests()); versions[2] != 1 || versions[1] < 2 || versions[1] > requests/4 {
		t.Errorf("connections by HTTP's version: %v, of %d requests", versions, requests)
	}
}

// everyThird answers every third request but the first with a status.
func everyThird(status int) func(*nethttp.Request) int {
	var mu sync.Mutex
	n := 0
	return func(*nethttp.Request) int {
		mu.Lock()
		defer mu.Unlock()
		n++
		if n%3 == 0 {
			return status
		}
		return 0
	}
}

// TestNothingIsFetchedTwice counts what a server is asked for: each byte once, but for what the one stream was asked for
// behind the place where it was ended.
func TestNothingIsFetchedTwice(t *testing.T) {
	content := windowContent()
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	rules := eager()
	got, _, _, err := readWindow(t, eagerSource(t, server.URL, rules), await)
	if err != nil || !bytes.Equal(got, content) {
		t.Fatal(err)
	}
	asked := map[int]int{}
	for _, r := range server.Requests()[1:] {
		var first, last int
		if _, err := fmt.Sscanf(r, "GET bytes=%d-%d", &first, &last); err != nil {
			t.Fatalf("%q: %v", r, err)
		}
		for at := first >> 10; at < (last+1)>>10; at++ {
			asked[at]++
		}
	}
	for at, times := range asked {
		if times != 1 {
			t.Errorf("the KiB %d was asked for %d times: %q", at, times, server.Requests())
			break
		}
	}
}

func TestAWindowNeverMixesVersions(t *testing.T) {
	content := windowContent()
	for name, b := range map[string]sourcetest.Behaviour{
		"where If-Range is heeded":  {},
		"where If-Range is ignored": {IgnoreIfRange: true},
	} {
		t.Run(name, func(t *testing.T) {
			b.Content, b.ChangeAfter, b.CutAfter = content, 6, 3_000_000
			got, _, _, err := readWindow(t, eagerSource(t, sourcetest.Serve(t, b).URL, eager()), await)
			var e *source.Error
			if !errors.As(err, &e) || e.Reason != source.Changed {
				t.Errorf("got %v", err)
			}
			if !bytes.HasPrefix(content, got) {
				t.Error("what was read before is not the content")
			}
		})
	}
}

// TestAScoutThatIsNotAnsweredCostsNothing has a server that answers nothing beside its first answer.
func TestAScoutThatIsNotAnsweredCostsNothing(t *testing.T) {
	content := windowContent()
	begun := false
	var mu sync.Mutex
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, Check: func(r *nethttp.Request) int {
		mu.Lock()
		first := !begun
		begun = true
		mu.Unlock()
		if !first {
			<-r.Context().Done()
		}
		return 0
	}})
	got, segments, _, err := readWindow(t, eagerSource(t, server.URL, eager()), func(*window) {})
	if err != nil || !bytes.Equal(got, content) {
		t.Fatal(err)
	}
	if segments != 1 {
		t.Errorf("%d segments were asked for at once", segments)
	}
	for _, r := range server.Requests()[1:] {
		if strings.HasSuffix(r, "-16777215") {
			t.Errorf("the stream was given up: %q", server.Requests())
		}
	}
}

func TestClosingAWindowEndsWhatItBegan(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: windowContent()})
	s := eagerSource(t, server.URL, eager())
	if _, err := s.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context(), 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	w := r.(*window)
	for p := make([]byte, 10_000); len(w.queue) < 2; {
		await(w)
		if _, err := r.Read(p); err != nil {
			t.Fatal(err)
		}
	}
	segments := w.queue
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for _, segment := range segments {
		if _, _, err := segment.state(); err == nil {
			t.Error("a segment is still being fetched")
		}
	}
}

func TestADoneContextEndsAWindow(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: windowContent(), StallAfter: 1 << 20})
	s := eagerSource(t, server.URL, eager())
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.Describe(ctx); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(ctx, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, 1<<19); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
