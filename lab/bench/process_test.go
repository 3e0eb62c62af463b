package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunGivesTheOutputOfOneProgramToTheNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	got, err := run(t.Context(), []pipeline{
		{{"printf", "one"}, {"tr", "o", "0"}, {"dd", "status=none", "of=" + path}},
		{{"sync", path}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != "0ne" {
		t.Errorf("the last program read %q, want %q", text, "0ne")
	}
	if got.wall <= 0 || got.cpu <= 0 {
		t.Errorf("four programs took %v and %v of the processors", got.wall, got.cpu)
	}
}

func TestRunFailsWithWhatTheProgramSaid(t *testing.T) {
	tests := map[string]struct {
		steps []pipeline
		says  string
	}{
		"a program fails":                       {[]pipeline{{{"sh", "-c", "echo first >&2; echo no luck >&2; exit 3"}}}, "no luck"},
		"one in the middle of a pipeline fails": {[]pipeline{{{"true"}, {"sh", "-c", "echo broken >&2; exit 1"}, {"cat"}}}, "broken"},
		"the second one isn't there":            {[]pipeline{{{"cat", "/dev/zero"}, {"no-such-program"}}}, "start no-such-program"},
		"a step after a failure isn't run":      {[]pipeline{{{"false"}}, {{"no-such-program"}}}, "false: exit status 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := run(t.Context(), test.steps)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got the error %v, want one that says %q", err, test.says)
			}
		})
	}
}

func TestMemoryField(t *testing.T) {
	const status = "Name:\tqemu-img\nVmHWM:\t   20480 kB\nRssAnon:\t    1024 kB\nRssFile:\t    x kB\n"
	tests := map[string]struct {
		field string
		want  int64
	}{
		"kilobytes become bytes":  {"RssAnon", 1 << 20},
		"another":                 {"VmHWM", 20 << 20},
		"one that isn't there":    {"RssShmem", 0},
		"one that is no number":   {"RssFile", 0},
		"half a name is no field": {"Vm", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := memoryField(status, test.field); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestTogetherAddsAllButTheMemory(t *testing.T) {
	got := together([]usage{
		{wall: 5, cpu: 1, anonymous: 7, resident: 8, written: 10, served: 100, allocated: 1000, image: 10000},
		{wall: 6, cpu: 2, anonymous: 9, resident: 6, written: 20, served: 200, allocated: 2000, image: 20000},
	})
	want := usage{cpu: 3, anonymous: 9, resident: 8, written: 30, served: 300, allocated: 3000, image: 30000}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{})); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
