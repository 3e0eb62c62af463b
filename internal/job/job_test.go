package job

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestASpecComesBackAsItWas(t *testing.T) {
	want := Spec{
		Version: Version, Disk: "tenant-a/web-root", Attempt: 2,
		Source: Source{HTTP: &HTTP{URL: "https://x/y", Checksum: "sha256:00", Headers: []string{"A: b"}, CADir: "/ca"}},
		Target: Target{Kind: Block, Path: "/dev/x", SizeBytes: 20 << 30, Preallocate: true},
	}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestASpecOfAnotherReleaseIsRefused(t *testing.T) {
	_, err := ParseSpec(`{"version":99}`)
	if err == nil || !strings.Contains(err.Error(), "different releases") {
		t.Errorf("got %v, want an error that names the releases", err)
	}
}

func TestAResultAlwaysFitsTheTerminationMessage(t *testing.T) {
	for name, message := range map[string]string{
		"a short message":                        "404 Not Found",
		"a long message":                         strings.Repeat("x", 5000),
		"a long message of wide runes":           strings.Repeat("ä€", 2000),
		"a message that grows when it's escaped": strings.Repeat("\x01\"", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			b := Result{Outcome: Refused, Reason: "BackingFile", Message: message}.Encode()
			if len(b) > MaxResult {
				t.Errorf("%d bytes, want at most %d", len(b), MaxResult)
			}
			r, ok := ParseResult(string(b))
			if !ok || r.Outcome != Refused || !utf8.ValidString(r.Message) {
				t.Errorf("read back %+v, %v", r, ok)
			}
			if len(message) < 100 && r.Message != message {
				t.Errorf("message became %q", r.Message)
			}
		})
	}
}

func TestParseResultOfAKilledWorker(t *testing.T) {
	for _, text := range []string{"", "Killed", "{}", `{"outcome":""}`} {
		if r, ok := ParseResult(text); ok {
			t.Errorf("%q was read as %+v", text, r)
		}
	}
}

func TestProgressLines(t *testing.T) {
	want := Progress{DoneBytes: 5, TotalBytes: 20, Checkpoint: `{"mark":5}`}
	if got, ok := ParseProgress(want.Line()); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, line := range []string{"", "hello", `{"level":"info"}`, `{"vmdiskProgress":null}`} {
		if p, ok := ParseProgress(line); ok {
			t.Errorf("%q was read as %+v", line, p)
		}
	}
}

func TestPercent(t *testing.T) {
	for name, c := range map[string]struct {
		p    Progress
		want float64
		ok   bool
	}{
		"a quarter":                {Progress{DoneBytes: 5, TotalBytes: 20}, 25, true},
		"the total is unknown":     {Progress{DoneBytes: 5, TotalBytes: 0}, 0, false},
		"more came than was said":  {Progress{DoneBytes: 30, TotalBytes: 20}, 100, true},
		"a worker counts nonsense": {Progress{DoneBytes: -1, TotalBytes: 20}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := c.p.Percent(); got != c.want || ok != c.ok {
				t.Errorf("got %v, %v", got, ok)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"version":1,"disk":"a/b"}`)
	f.Add(`{"version":1,"outcome":"Refused","message":"x"}`)
	f.Add(`{"vmdiskProgress":{"doneBytes":1,"totalBytes":2}}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = ParseSpec(text) // must not panic; what it refuses is tested above
		if r, ok := ParseResult(text); ok && len(r.Encode()) > MaxResult {
			t.Errorf("a result of %d bytes", len(r.Encode()))
		}
		if p, ok := ParseProgress(text); ok {
			if percent, ok := p.Percent(); ok && (percent < 0 || percent > 100) {
				t.Errorf("%v percent", percent)
			}
		}
	})
}
