package check

import (
	"fmt"
	"strings"
)

// Text is the findings for people: the worst last, where a terminal shows it.
func Text(findings []Finding) string {
	var b strings.Builder
	for _, severity := range []Severity{OK, Unknown, Warning, Problem} {
		for _, f := range findings {
			if f.Severity != severity {
				continue
			}
			fmt.Fprintf(&b, "%-8s %s: %s.\n", f.Severity, f.About, strings.TrimSuffix(f.Message, "."))
			if f.Do != "" {
				fmt.Fprintf(&b, "%-8s   → %s\n", "", f.Do)
			}
		}
	}
	fmt.Fprintf(&b, "\nProblems: %d, warnings: %d, unknown: %d, ok: %d.\n",
		Count(findings, Problem), Count(findings, Warning), Count(findings, Unknown), Count(findings, OK))
	return b.String()
}
