package control

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// The aims.
const (
	mostCalls   = 25
	mostLatency = 100 * time.Millisecond
	mostMemory  = 128 << 20
)

// findings are what was measured.
type findings struct {
	disks       int
	made, ready time.Duration
	calls       calls
	metrics     string
	peak        int64 // bytes
}

func (f findings) print(out io.Writer) error {
	each := func(n int) float64 { return float64(n) / float64(f.disks) }
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ncall\tper disk\tfailed\t")
	kinds := slices.SortedFunc(maps.Keys(f.calls.of), func(a, b call) int {
		return cmp.Or(cmp.Compare(f.calls.of[b], f.calls.of[a]), strings.Compare(a.resource+a.verb, b.resource+b.verb))
	})
	for _, c := range kinds {
		fmt.Fprintf(table, "%s %s\t%.2f\t%.2f\t\n", c.verb, c.resource, each(f.calls.of[c]), each(f.calls.failed[c]))
	}
	fmt.Fprintln(table, "\nreconciling\ttimes per disk\tp50\tp99\t")
	worst := time.Duration(0)
	for _, name := range []string{"vmdisk", "datavolume"} {
		h := histogramOf(f.metrics, "controller_runtime_reconcile_time_seconds", name)
		fmt.Fprintf(table, "%s\t%.1f\t%s\t%s\t\n", name, each(int(h.count())), h.between(0.5), h.between(0.99))
		_, most := h.quantile(0.99)
		worst = max(worst, most)
		queued := histogramOf(f.metrics, "workqueue_queue_duration_seconds", name)
		fmt.Fprintf(table, "%s, waiting for its turn\t%.1f\t%s\t%s\t\n", name, each(int(queued.count())), queued.between(0.5), queued.between(0.99))
	}
	fmt.Fprintf(table, "\n%d disks made in\t%.1f s\t\n", f.disks, f.made.Seconds())
	fmt.Fprintf(table, "all ready after\t%.1f s\t\n", f.ready.Seconds())
	fmt.Fprintln(table, "\naim\twanted\tmeasured\t")
	judge := func(what, wanted, measured string, reached bool) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", what, wanted, measured, map[bool]string{true: "reached", false: "MISSED"}[reached])
	}
	judge("API calls per disk", fmt.Sprintf("≤ %d", mostCalls), fmt.Sprintf("%.1f", each(f.calls.total())), each(f.calls.total()) <= mostCalls)
	judge("p99 of reconciling", "≤ "+mostLatency.String(), "≤ "+worst.String(), worst <= mostLatency)
	judge("the controller's peak memory", fmt.Sprintf("≤ %d MiB", mostMemory>>20), fmt.Sprintf("%d MiB", f.peak>>20), f.peak <= mostMemory)
	return table.Flush()
}

// histogram is one of Prometheus': how many were at most so many seconds, the smallest bound first.
type histogram []bucket

type bucket struct {
	most  float64
	count uint64
}

// histogramOf reads the histogram of a controller from Prometheus' text.
func histogramOf(text, metric, controller string) histogram {
	var h histogram
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		labels, ok := strings.CutPrefix(lines.Text(), metric+"_bucket{")
		labels, value, whole := strings.Cut(labels, "} ")
		if !ok || !whole || !strings.Contains(","+labels, `,controller="`+controller+`"`) {
			continue
		}
		_, bound, _ := strings.Cut(labels, `le="`)
		bound, _, _ = strings.Cut(bound, `"`)
		most, err := strconv.ParseFloat(bound, 64)
		count, err2 := strconv.ParseFloat(value, 64)
		if err == nil && err2 == nil {
			h = append(h, bucket{most, uint64(count)})
		}
	}
	slices.SortFunc(h, func(a, b bucket) int { return cmp.Compare(a.most, b.most) })
	return h
}

func (h histogram) count() uint64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].count
}

// quantile are the bounds between which the quantile q lies: no more is known.
func (h histogram) quantile(q float64) (least, most time.Duration) {
	wanted := uint64(math.Ceil(q * float64(h.count())))
	for _, b := range h {
		most = time.Duration(math.MaxInt64)
		if !math.IsInf(b.most, 1) {
			most = time.Duration(b.most * float64(time.Second))
		}
		if b.count >= wanted {
			return least, most
		}
		least = most
	}
	return least, most
}

func (h histogram) between(q float64) string {
	least, most := h.quantile(q)
	if most == time.Duration(math.MaxInt64) {
		return "over " + least.String()
	}
	return fmt.Sprintf("%s–%s", least, most)
}
