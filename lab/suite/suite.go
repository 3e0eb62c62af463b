// Package suite runs vmdisk's tests in stages, from the quickest to the scenarios in the lab, and counts them. It
// installs, builds, starts and stops what they need. It must not know what is tested.
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// ErrFailed says that tests failed. What failed has been told by then.
var ErrFailed = errors.New("not all tests passed")

// Options say which tests are run and how.
type Options struct {
	// Out is where the run tells its story; its last line is the count of tests.
	Out io.Writer
	// Only names stages, see Stages; empty runs them all.
	Only []string
	// All adds what takes long: the linter, the race detector everywhere, the scenarios named TestLong….
	All bool
	// Keep leaves the lab up that the run has started.
	Keep bool
}

// stage is one part of the run. It answers the counts of its tests; an error means that it could not be carried through.
type stage struct {
	name, title string
	run         func(context.Context, Options) (Counts, error)
}

func stages() []stage {
	return []stage{
		{"static", "generated files, formatting, go vet", static},
		{"unit", "unit tests", unit},
		{"apiserver", "rules, rights and quotas against a real API server", apiServer},
		{"lab", "a lab comes up from whatever state it was left in", lifecycle},
		{"e2e", "scenarios in the lab", scenarios},
	}
}

// Stages are the names of the stages in their order.
func Stages() []string {
	var names []string
	for _, s := range stages() {
		names = append(names, s.name)
	}
	return names
}

// outcome is how a stage ended.
type outcome struct {
	stage
	counts Counts
	err    error
	took   time.Duration
}

// Run runs the stages in order. A stage that fails does not keep the others from running: a person wants the whole
// picture. The error is ErrFailed if anything failed.
func Run(ctx context.Context, o Options) error {
	for _, name := range o.Only {
		if !slices.Contains(Stages(), name) {
			return fmt.Errorf("there is no stage %q: choose from %s", name, strings.Join(Stages(), ", "))
		}
	}
	var outcomes []outcome
	for _, s := range stages() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, s.name) {
			continue
		}
		fmt.Fprintf(o.Out, "\n=== %s: %s\n", s.name, s.title)
		start := time.Now()
		counts, err := s.run(ctx, o)
		if err != nil {
			fmt.Fprintf(o.Out, "%s: %v\n", s.name, err)
			counts.Failed++
		}
		outcomes = append(outcomes, outcome{s, counts, err, time.Since(start)})
		if ctx.Err() != nil {
			break
		}
	}
	return conclude(o.Out, outcomes)
}

// conclude prints what came out, the count of all tests last.
func conclude(out io.Writer, outcomes []outcome) error {
	fmt.Fprintf(out, "\n")
	var total Counts
	for _, o := range outcomes {
		fmt.Fprintf(out, "%-10s %-45v %s\n", o.name, o.counts, o.took.Round(time.Second))
		total = total.plus(o.counts)
	}
	fmt.Fprintf(out, "\n%v\n", total)
	if total.Failed > 0 {
		return ErrFailed
	}
	if total.Passed == 0 {
		return fmt.Errorf("no test was run: %w", ErrFailed)
	}
	return nil
}
