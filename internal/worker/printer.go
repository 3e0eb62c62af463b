package worker

import (
	"fmt"
	"io"
	"sync"
	"time"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/transfer"
)

// printer prints progress lines, the first at once, then at most one in each interval, and the last at the end. Each has
// the newest checkpoint, since whoever reads the log reads its last line only.
type printer struct {
	out      io.Writer
	pulse    pulse
	now      func() time.Time
	interval time.Duration

	mu      sync.Mutex
	printed time.Time
	last    job.Progress
	pending bool  // last was not printed
	err     error // of the first line that could not be printed
}

// progress takes the newest state.
func (p *printer) progress(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := job.Progress{DoneBytes: done, TotalBytes: total, Checkpoint: p.last.Checkpoint, ResumedAt: p.last.ResumedAt}
	if next == p.last && !p.printed.IsZero() {
		return
	}
	p.last, p.pending = next, true
	if now := p.now(); p.printed.IsZero() || now.Sub(p.printed) >= p.interval {
		p.printed = now
		p.print()
	}
}

// checkpoint takes the newest checkpoint, and prints it at once: a worker that is killed has lost what lies behind the last one in its log.
// Checkpoints are few, whatever the image's size.
func (p *printer) checkpoint(c transfer.Checkpoint) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.Checkpoint = c.Encode()
	p.printed = p.now()
	p.print()
	return nil
}

// resumed takes where an earlier attempt is gone on with.
func (p *printer) resumed(at int64, startsOver string) error {
	if startsOver != "" {
		return &startsOverError{startsOver}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.ResumedAt, p.pending = at, true
	return nil
}

// again prints the newest state again where none was printed for a while, as a sign of life.
func (p *printer) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.now(); now.Sub(p.printed) >= lookEvery {
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

// finish prints the newest state if that was not done, and answers it, and what went wrong with printing.
func (p *printer) finish() (job.Progress, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending {
		p.print()
	}
	return p.last, p.err
}
