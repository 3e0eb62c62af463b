package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Text is the report as one screen.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s: %s%s\n", r.Kind, r.Namespace, r.Name, r.Doing, r.sinceWords())
	if r.About != "" {
		fmt.Fprintf(&b, "  %s\n", r.About)
	}
	if r.Progress != nil {
		fmt.Fprintf(&b, "\n  %s\n", r.Progress.text())
	}
	r.paragraphs(&b)
	if len(r.Parts) > 0 {
		b.WriteString("\nIt is made of:\n")
		for _, p := range r.Parts {
			fmt.Fprintf(&b, "  %-10s %s: %s\n", p.Kind, p.Name, p.Is)
		}
	}
	if len(r.Events) > 0 {
		b.WriteString("\nLately:\n")
		for _, e := range r.Events {
			fmt.Fprintf(&b, "  %s\n", e.text(r.At.Time))
		}
	}
	if len(r.Unread) > 0 {
		b.WriteString("\nNot seen:\n")
		for _, u := range r.Unread {
			fmt.Fprintf(&b, "  - %s\n", u)
		}
	}
	return b.String()
}

// paragraphs are why the disk is as it is, and what to do.
func (r Report) paragraphs(b *strings.Builder) {
	told := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "\n%s: %s\n", name, text)
		}
	}
	why := r.Why
	if r.Reason != "" {
		why = strings.TrimSpace(fmt.Sprintf("%s (%s)", why, r.Reason))
	}
	name := "Because"
	if r.State == Waiting {
		name = "It waits"
	}
	told(name, why)
	told("The last error", r.LastError)
	for _, n := range r.Notes {
		told("Besides", n)
	}
	for _, d := range r.Do {
		told("What to do", d)
	}
}

func (r Report) sinceWords() string {
	if r.Since == nil {
		return ""
	}
	return fmt.Sprintf(", for %s (since %s)", duration.HumanDuration(r.At.Sub(r.Since.Time)), r.Since.UTC().Format("2006-01-02 15:04:05 MST"))
}

// barWidth is the bar's length in characters.
const barWidth = 30

func (p Progress) text() string {
	var words []string
	if p.Percent >= 0 {
		done := min(barWidth, int(p.Percent/100*barWidth))
		words = append(words, fmt.Sprintf("[%s%s] %.2f%%", strings.Repeat("#", done), strings.Repeat(".", barWidth-done), p.Percent))
	}
	switch {
	case p.TotalBytes > 0:
		words = append(words, fmt.Sprintf("%s of %s", size(p.DoneBytes), size(p.TotalBytes)))
	case p.Percent < 0:
		words = append(words, fmt.Sprintf("%s, of how much is not known", size(p.DoneBytes)))
	}
	rate := ""
	if p.Average {
		rate = " on average"
	}
	if p.BytesPerSecond > 0 {
		words = append(words, fmt.Sprintf("%s/s%s", size(p.BytesPerSecond), rate))
	}
	if p.SecondsLeft > 0 {
		words = append(words, fmt.Sprintf("about %s left", duration.HumanDuration(time.Duration(p.SecondsLeft)*time.Second)))
	}
	return strings.Join(words, ", ")
}

func (e Event) text(now time.Time) string {
	times := ""
	if e.Count > 1 {
		times = fmt.Sprintf(" (%d times)", e.Count)
	}
	return fmt.Sprintf("%-6s %-7s %s: %s%s", duration.HumanDuration(now.Sub(e.At.Time)), e.Type, e.Reason, e.Message, times)
}

// size is a number of bytes as people read it.
func size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
