package suite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Counts are numbers of tests. Subtests count, as they do for go test.
type Counts struct{ Passed, Failed, Skipped int }

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Passed + d.Passed, c.Failed + d.Failed, c.Skipped + d.Skipped}
}

// String is the closing line that a CI reads: alone on a line, with the skipped only where there are some.
func (c Counts) String() string {
	line := fmt.Sprintf("%d passed, %d failed", c.Passed, c.Failed)
	if c.Skipped > 0 {
		line += fmt.Sprintf(", %d skipped", c.Skipped)
	}
	return line
}

// event is a line of go test -json (go doc test2json; go help buildjson for the build's).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// reader counts the tests in a stream of events and tells what a person wants to know of them.
type reader struct {
	out io.Writer
	// each says to name every test that ends, not only those that fail, and to show at once what a package prints
	// outside of its tests, such as the steps of its preparation.
	each   bool
	total  Counts
	of     map[string]*Counts
	output map[string]*strings.Builder
}

// count reads events until the end of the stream.
func count(events io.Reader, out io.Writer, each bool) (Counts, error) {
	r := reader{out: out, each: each, of: map[string]*Counts{}, output: map[string]*strings.Builder{}}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) == nil {
				r.take(e)
			} else { // go itself complains in plain text
				fmt.Fprint(out, line)
			}
		}
		if err == io.EOF {
			return r.total, nil
		}
		if err != nil {
			return r.total, fmt.Errorf("read the events of go test: %w", err)
		}
	}
}

func (r *reader) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if r.each && e.Test == "" && !closing(e.Output) {
			fmt.Fprintf(r.out, "    %s", e.Output)
			return
		}
		if r.output[key] == nil {
			r.output[key] = &strings.Builder{}
		}
		r.output[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnded(e)
		} else {
			r.testEnded(e, key)
		}
		delete(r.output, key)
	}
}

func (r *reader) testEnded(e event, key string) {
	one := Counts{}
	switch e.Action {
	case "pass":
		one.Passed = 1
	case "fail":
		one.Failed = 1
		fmt.Fprint(r.out, r.text(key))
	case "skip":
		one.Skipped = 1
		fmt.Fprint(r.out, r.text(key))
	}
	if r.of[e.Package] == nil {
		r.of[e.Package] = &Counts{}
	}
	*r.of[e.Package] = r.of[e.Package].plus(one)
	r.total = r.total.plus(one)
	if r.each && !strings.Contains(e.Test, "/") {
		fmt.Fprintf(r.out, "    %s  %s  (%s)\n", e.Action, e.Test, seconds(e.Elapsed))
	}
}

// packageEnded tells of a package. One that failed although none of its tests did (it does not build, or it crashed)
// counts as a failure of its own.
func (r *reader) packageEnded(e event) {
	of := Counts{}
	if r.of[e.Package] != nil {
		of = *r.of[e.Package]
	}
	if e.Action == "fail" && of.Failed == 0 {
		fmt.Fprint(r.out, r.text(e.Package+" "))
		of.Failed, r.total.Failed = 1, r.total.Failed+1
	}
	if of != (Counts{}) {
		fmt.Fprintf(r.out, "  %s  %s  %v  (%s)\n", map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "ok  "}[e.Action], e.Package, of, seconds(e.Elapsed))
	}
}

// closing says whether a line is go test's own at a package's end.
func closing(line string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
	return word == "PASS" || word == "FAIL" || strings.TrimSpace(word) == "ok" || strings.HasPrefix(word, "exit status")
}

// text is what a test has printed, without the lines that only say that it ran.
func (r *reader) text(key string) string {
	if r.output[key] == nil {
		return ""
	}
	var kept strings.Builder
	for line := range strings.Lines(r.output[key].String()) {
		if !strings.HasPrefix(line, "=== ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// seconds shows a number of seconds.
func seconds(n float64) string {
	return time.Duration(n * float64(time.Second)).Round(100 * time.Millisecond).String()
}
