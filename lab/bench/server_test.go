package bench

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestServer(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "image"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := serve(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	type answer struct {
		Status int
		Body   string
		Served int64
	}
	tests := map[string]struct {
		network network
		path    string
		ranged  string
		want    answer
	}{
		"a whole file":            {network{}, "/image", "", answer{200, "0123456789", 10}},
		"a part of it":            {network{}, "/image", "bytes=2-4", answer{206, "234", 3}},
		"over a limited line":     {network{bytesPerSecond: 1 << 40}, "/image", "bytes=5-", answer{206, "56789", 5}},
		"after a while":           {network{latency: time.Microsecond}, "/image", "", answer{200, "0123456789", 10}},
		"a file that isn't there": {network{}, "/other", "", answer{404, "404 page not found\n", 0}},
		"a directory":             {network{}, "/", "", answer{404, "404 page not found\n", 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := s.set(test.network)
			request, err := http.NewRequest(http.MethodGet, s.url+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.ranged != "" {
				request.Header.Set("Range", test.ranged)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			got := answer{response.StatusCode, string(body), s.set(network{}) - before}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLineIsSharedAndCatchesUpOnlyALittle(t *testing.T) {
	const rate = 1000 // bytes per second
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	var l line
	got := []time.Time{
		l.reserve(at(0), 100, rate),                    // an idle line has saved up its slack
		l.reserve(at(0), 100, rate),                    // the second one waits for the first
		l.reserve(at(195*time.Millisecond), 100, rate), // late, but by less than the slack: it catches up
		l.reserve(at(10*time.Second), 100, rate),       // very late: it doesn't
	}
	want := []time.Time{
		at(100*time.Millisecond - slack), at(200*time.Millisecond - slack), at(300*time.Millisecond - slack),
		at(10*time.Second + 100*time.Millisecond - slack),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("when the bytes have passed (-want +got):\n%s", diff)
	}
}
