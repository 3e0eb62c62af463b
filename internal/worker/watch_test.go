package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"vmdisk.io/vmdisk/internal/transfer"
)

// watched is what becomes of some work on a clock of the test's own.
type watched struct {
	shown  int
	took   time.Duration
	report transfer.Report
	err    error
}

func watchOver(t *testing.T, patience time.Duration, work func(context.Context, *pulse) (transfer.Report, error)) (w watched) {
	t.Helper()
	var p pulse
	began := time.Now()
	w.report, w.err = watch(t.Context(), patience, &p, func() { w.shown++ }, func(ctx context.Context) (transfer.Report, error) { return work(ctx, &p) })
	w.took = time.Since(began)
	return w
}

// movesFor is work that moves each second for a time.
func movesFor(p *pulse, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Second)
		p.beat()
	}
}

func TestWorkThatMovesIsLeftAloneHoweverLongItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchOver(t, time.Minute, func(_ context.Context, p *pulse) (transfer.Report, error) {
			movesFor(p, time.Hour)
			return transfer.Report{ReadBytes: 7}, nil
		})
		if w.err != nil || w.report.ReadBytes != 7 || w.shown < 300 {
			t.Errorf("%+v: it was to end well, and to be shown every %s", w, lookEvery)
		}
	})
}

func TestWorkThatDoesNotMoveIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		patience time.Duration
		lets     bool // it ends when it is told to
		most     time.Duration
	}{
		"and lets go":                          {time.Minute, true, 2*time.Minute + lookEvery},
		"and hangs in the kernel, so to speak": {time.Minute, false, 2*time.Minute + lookEvery + lastWords},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				forever := make(chan struct{})
				w := watchOver(t, c.patience, func(ctx context.Context, p *pulse) (transfer.Report, error) {
					movesFor(p, time.Minute)
					if c.lets {
						<-ctx.Done()
						return transfer.Report{ReadBytes: 7}, ctx.Err()
					}
					<-forever
					return transfer.Report{}, nil
				})
				close(forever)
				var stalled *stalledError
				if !errors.As(w.err, &stalled) || w.took > c.most || w.took < 2*time.Minute || c.lets != (w.report.ReadBytes == 7) {
					t.Errorf("%+v, want %v within %s", w, stalled, c.most)
				}
			})
		})
	}
}

func TestWithoutPatienceNothingIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchOver(t, 0, func(context.Context, *pulse) (transfer.Report, error) {
			time.Sleep(24 * time.Hour)
			return transfer.Report{}, nil
		})
		if w.err != nil || w.shown != 0 {
			t.Errorf("%+v", w)
		}
	})
}
