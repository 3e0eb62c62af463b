package worker

import (
	"fmt"
	"io"
	"time"

	"vmdisk.io/vmdisk/internal/job"
)

// printer prints progress lines, the first at once, then at most one in each interval, and the last at the end.
type printer struct {
	out      io.Writer
	now      func() time.Time
	interval time.Duration

	printed time.Time
	last    job.Progress
	pending bool  // last was not printed
	err     error // of the first line that could not be printed
}

// progress takes the newest state.
func (p *printer) progress(done, total int64) {
	next := job.Progress{DoneBytes: done, TotalBytes: total}
	if next == p.last && !p.printed.IsZero() {
		return
	}
	p.last, p.pending = next, true
	if now := p.now(); p.printed.IsZero() || now.Sub(p.printed) >= p.interval {
		p.printed = now
		p.print()
	}
}

func (p *printer) print() {
	p.pending = false
	if _, err := fmt.Fprintln(p.out, p.last.Line()); err != nil && p.err == nil {
		p.err = fmt.Errorf("print progress: %w", err)
	}
}

// finish prints the newest state if that was not done, and answers what went wrong with printing.
func (p *printer) finish() error {
	if p.pending {
		p.print()
	}
	return p.err
}
