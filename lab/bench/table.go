package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// median is the middle one of the values, or the mean of the two in the middle. Of none it is 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// each takes one value of every run.
func each(runs []usage, value func(usage) float64) []float64 {
	values := make([]float64, len(runs))
	for i, u := range runs {
		values[i] = value(u)
	}
	return values
}

// What runs are asked for.
func wallSeconds(u usage) float64  { return u.wall.Seconds() }
func cpuSeconds(u usage) float64   { return u.cpu.Seconds() }
func anonymousMiB(u usage) float64 { return float64(u.anonymous) / (1 << 20) }
func residentMiB(u usage) float64  { return float64(u.resident) / (1 << 20) }
func writtenMB(u usage) float64    { return float64(u.written) / 1e6 }
func servedMB(u usage) float64     { return float64(u.served) / 1e6 }

// printGroup prints one table: a line for each way, with the medians of its runs. The last column is how much longer it
// took than the first way.
func printGroup(out io.Writer, g group, r results) {
	fmt.Fprintf(out, "\n%s (medians of %s)\n", g.name, times(g.rounds))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\twall s\t(least–most)\tCPU s\tanon MiB\tRSS MiB\twritten MB\tserved MB\tratio\t")
	width := 0 // of the names, which are aligned at the left
	for _, w := range g.ways {
		width = max(width, len(w.name))
	}
	first := 0.0
	for _, w := range g.ways {
		runs := r[key{g.name, w.name}]
		if len(runs) == 0 {
			fmt.Fprintf(table, "%-*s\tfailed\t\t\t\t\t\t\t\t\n", width, w.name)
			continue
		}
		walls := each(runs, wallSeconds)
		wall := median(walls)
		if first == 0 {
			first = wall
		}
		fmt.Fprintf(table, "%-*s\t%.2f\t(%.2f–%.2f)\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f×\t\n", width, w.name,
			wall, slices.Min(walls), slices.Max(walls), median(each(runs, cpuSeconds)), median(each(runs, anonymousMiB)), median(each(runs, residentMiB)),
			median(each(runs, writtenMB)), median(each(runs, servedMB)), wall/first)
	}
	// The writers' errors are the terminal's, which nobody can be told of.
	_ = table.Flush()
	fmt.Fprintln(out)
}

// printFigures prints what is to be reached, and what was.
func printFigures(out io.Writer, r results) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "to be reached\twanted\tmeasured\t")
	for _, f := range figures() {
		value, ok := f.value(r)
		if !ok {
			continue
		}
		said := "reached"
		if !f.reached(value) {
			said = "MISSED"
		}
		fmt.Fprintf(table, "%s\t%s %s\t%.2f\t%s\n", f.text, map[bool]string{true: "≥", false: "≤"}[f.atLeast], trim(f.wanted), value, said)
	}
	_ = table.Flush()
}

func times(rounds int) string {
	if rounds == 1 {
		return "1 round"
	}
	return fmt.Sprintf("%d rounds", rounds)
}

// trim is a number without zeros behind its point.
func trim(value float64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", value), "0"), ".")
}
