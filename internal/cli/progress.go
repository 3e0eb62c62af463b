package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"vmdisk.io/vmdisk/internal/job"
)

// progressMode is a value of --progress.
type progressMode string

const (
	progressAuto progressMode = "auto"
	progressBar  progressMode = "bar"
	progressJSON progressMode = "json"
	progressNone progressMode = "none"
)

// The least time between two looks at a bar, and between two lines of JSON.
const (
	barInterval  = 100 * time.Millisecond
	lineInterval = time.Second
)

// meter shows how far a transfer is.
type meter interface {
	// progress takes the newest state; see Progress of package job.
	progress(done, total int64)
	// end shows the last state.
	end(ok bool)
}

// newMeter makes the meter that was asked for. auto is a bar where w is a terminal.
func newMeter(mode progressMode, w io.Writer) (meter, error) {
	switch mode {
	case progressAuto:
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return newBar(w), nil
		}
		return silence{}, nil
	case progressBar:
		return newBar(w), nil
	case progressJSON:
		return &thinned{meter: &lines{w: w}, interval: lineInterval, now: time.Now}, nil
	case progressNone:
		return silence{}, nil
	default:
		return nil, usage("--progress is %q: auto, bar, json and none are possible", mode)
	}
}

// silence shows nothing.
type silence struct{}

func (silence) progress(int64, int64) {}
func (silence) end(bool)              {}

// thinned passes the first state on, at most one in each interval, and the last one.
type thinned struct {
	meter
	interval time.Duration
	now      func() time.Time

	passed      time.Time
	done, total int64
	pending     bool
}

func (t *thinned) progress(done, total int64) {
	t.done, t.total, t.pending = done, total, true
	if now := t.now(); t.passed.IsZero() || now.Sub(t.passed) >= t.interval {
		t.passed, t.pending = now, false
		t.meter.progress(done, total)
	}
}

func (t *thinned) end(ok bool) {
	if t.pending {
		t.meter.progress(t.done, t.total)
	}
	t.meter.end(ok)
}

// lines are job.Progress lines, as a worker prints them.
type lines struct{ w io.Writer }

func (l *lines) progress(done, total int64) {
	fmt.Fprintln(l.w, job.Progress{DoneBytes: done, TotalBytes: total}.Line())
}

func (l *lines) end(bool) {}

// bar is a bar with the amount, the rate and the time that is left.
type bar struct {
	container *mpb.Progress
	bar       *mpb.Bar
	total     int64
}

func newBar(w io.Writer) meter {
	container := mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithRefreshRate(2*barInterval))
	b := container.New(0, mpb.BarStyle(),
		mpb.PrependDecorators(decor.CountersKibiByte("% .1f of % .1f")),
		mpb.AppendDecorators(
			decor.Percentage(decor.WCSyncSpace), decor.AverageSpeed(decor.SizeB1024(0), "% .1f", decor.WCSyncSpace),
			decor.AverageETA(decor.ET_STYLE_GO, decor.WCSyncSpace)),
	)
	return &thinned{meter: &bar{container: container, bar: b}, interval: barInterval, now: time.Now}
}

func (b *bar) progress(done, total int64) {
	if total != b.total {
		b.total = total
		b.bar.SetTotal(total, false)
	}
	b.bar.SetCurrent(done)
}

func (b *bar) end(ok bool) {
	if ok {
		b.bar.SetTotal(-1, true) // what is done is all
	} else {
		b.bar.Abort(false)
	}
	b.container.Wait()
}
