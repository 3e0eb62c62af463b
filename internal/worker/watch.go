package worker

import (
	"context"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/transfer"
)

// pulse counts what moves: bytes from the source, and calls that the volume's storage has answered. Its zero value is ready.
type pulse struct{ beats atomic.Int64 }

func (p *pulse) beat() { p.beats.Add(1) }

// feel makes the reading of a source count. One that knows its holes still does.
func (p *pulse) feel(s source.Source) source.Source {
	if finder, ok := s.(image.HoleFinder); ok {
		return struct {
			felt
			image.HoleFinder
		}{felt{s, p}, finder}
	}
	return felt{s, p}
}

// felt is a source whose readers count.
type felt struct {
	source.Source
	pulse *pulse
}

// Open implements source.Source.
func (f felt) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := f.Source.Open(ctx, offset, length)
	if err != nil {
		return nil, err
	}
	return feltReader{r, f.pulse}, nil
}

type feltReader struct {
	io.ReadCloser
	pulse *pulse
}

// Read implements io.Reader.
func (f feltReader) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if n > 0 {
		f.pulse.beat()
	}
	return n, err
}

const (
	// lookEvery is how often it is seen whether anything has moved.
	lookEvery = 10 * time.Second
	// lastWords is how long work that is told to stop may take for it, before it is left behind.
	lastWords = 20 * time.Second
)

// watch does some work for as long as something moves. Each look that finds a movement is shown, so that whoever reads the worker's log sees
// life in it also while nothing is transferred, as when a device is made zero. Where nothing moves for the patience, watch answers stalled:
// the work is told to stop, and if it doesn't, because the kernel doesn't let go of it, it is left behind, for the process is about
// to end. A patience of 0 waits for ever.
func watch(ctx context.Context, patience time.Duration, p *pulse, show func(), work func(context.Context) (transfer.Report, error)) (transfer.Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		report transfer.Report
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		report, err := caught(ctx, work)
		ended <- end{report, err}
	}()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	seen, since := p.beats.Load(), time.Now()
	for {
		select {
		case e := <-ended:
			return e.report, e.err
		case now := <-ticker.C:
			beats := p.beats.Load()
			switch {
			case beats != seen:
				seen, since = beats, now
				show()
			case patience > 0 && now.Sub(since) >= patience:
				cancel()
				var e end
				select {
				case e = <-ended:
				case <-time.After(lastWords):
				}
				return e.report, &stalledError{patience}
			}
		}
	}
}

// caught does the work, and makes an error of a panic.
func caught(ctx context.Context, work func(context.Context) (transfer.Report, error)) (report transfer.Report, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &transfer.Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	return work(ctx)
}

// stalledError is work in which nothing has moved for so long.
type stalledError struct{ patience time.Duration }

func (e *stalledError) Error() string {
	return "nothing was read from the source or written to the volume for " + e.patience.String() +
		", and a silent source is given up on sooner: the volume's storage may hang; the administrator can see more in the node's kernel log and the storage's own"
}
