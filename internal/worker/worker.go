// Package worker runs one job.Spec: it makes a source and a target of it, transfers the one into the other, prints
// progress, and turns whatever happened into a job.Result. It must not know Kubernetes.
package worker

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/volume"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
	"vmdisk.io/vmdisk/internal/transfer"
)

// Options say how a worker behaves. The zero Options are those of a worker in a pod that is silent.
type Options struct {
	// Stdout takes the progress lines; nil for none.
	Stdout io.Writer
	// Stderr takes the stack of a panic; nil for none.
	Stderr io.Writer
	// Now is the clock by which progress is thinned out; default time.Now.
	Now func() time.Time
	// Interval is the least time between two progress lines; default a second.
	Interval time.Duration
	// Limits bound what an image can make the worker do.
	Limits image.Limits
	// HTTP is the ground on which http sources are made: timeouts, proxy. What the Spec says is put on top.
	HTTP http.Options
}

func (o Options) withDefaults() Options {
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	return o
}

// Run does what spec says. It always answers a complete Result, also for a Spec without sense or after a panic. When
// ctx is done it stops and answers Interrupted.
func Run(ctx context.Context, spec job.Spec, o Options) (result job.Result) {
	o = o.withDefaults()
	defer func() {
		if v := recover(); v != nil {
			result = panicked(&transfer.Panic{Value: v, Stack: debug.Stack()}, o.Stderr)
		}
		result.Version = job.Version
	}()
	printer := &printer{out: o.Stdout, now: o.Now, interval: o.Interval}
	patience := time.Duration(max(0, spec.PatienceSeconds)) * time.Second
	report, err := watch(ctx, patience, &printer.pulse, printer.again, func(ctx context.Context) (transfer.Report, error) {
		return run(ctx, spec, o, printer)
	})
	last, printErr := printer.finish()
	result = judge(ctx, firstError(err, printErr), o.Stderr)
	if result.Outcome == job.Refused && report.Source != "" {
		result.Message = report.Source + ": " + result.Message // what is wrong with the bytes says nothing of whence they came
	}
	result.Format = string(report.Format)
	result.VirtualBytes, result.ReadBytes, result.WrittenBytes = report.VirtualBytes, report.ReadBytes, report.WrittenBytes
	result.ResumedAt, result.ContentHash = report.ResumedAt, report.ContentHash
	if result.Outcome != job.Succeeded && result.Outcome != job.Refused {
		result.Checkpoint = last.Checkpoint
	}
	return result
}

func run(ctx context.Context, spec job.Spec, o Options, printer *printer) (report transfer.Report, err error) {
	if spec.Version != 0 && spec.Version != job.Version {
		return report, broken("the job has version %d, and this worker knows version %d", spec.Version, job.Version)
	}
	if spec.Target.SizeBytes <= 0 {
		return report, broken("the job's target has a size of %d bytes", spec.Target.SizeBytes)
	}
	switch source := spec.Source; {
	case spec.Grow && source == (job.Source{}):
		return runGrow(spec, printer)
	case spec.Grow:
		return report, broken("the job is to grow a disk, and names a source")
	case source.Blank != nil && source == (job.Source{Blank: source.Blank}):
		return runBlank(ctx, spec, printer)
	case source.HTTP != nil && source == (job.Source{HTTP: source.HTTP}):
		return runHTTP(ctx, spec, o, printer)
	case source.Volume != nil && source == (job.Source{Volume: source.Volume}):
		return runVolume(ctx, spec, o, printer)
	default:
		return report, broken("the job must have exactly one source")
	}
}

// runBlank makes a disk of zeros.
func runBlank(ctx context.Context, spec job.Spec, p *printer) (report transfer.Report, err error) {
	disk, err := openTarget(spec, p.pulse.beat)
	if err != nil {
		return report, err
	}
	defer func() { err = firstError(err, disk.Close()) }()
	report = transfer.Report{Format: image.Raw, VirtualBytes: disk.Size()}
	if err := disk.Clear(ctx); err != nil {
		return report, err
	}
	if err := disk.Commit(); err != nil {
		return report, err
	}
	p.progress(disk.Size(), disk.Size())
	return report, nil
}

// runHTTP fills a disk from an image behind a URL. Everything that can be checked without the network is checked first.
func runHTTP(ctx context.Context, spec job.Spec, o Options, p *printer) (report transfer.Report, err error) {
	checksum, err := stream.ParseChecksum(spec.Source.HTTP.Checksum)
	if err != nil {
		return report, &image.Refused{Reason: InvalidChecksum, Message: err.Error()}
	}
	options, err := httpOptions(*spec.Source.HTTP, o.HTTP)
	if err != nil {
		return report, err
	}
	if options.Reach, err = reach(spec.Egress, options.Reach); err != nil {
		return report, err
	}
	if spec.Checkpoint != "" {
		options.Head = image.HeadBytes // most of the image won't be read
	}
	src, err := http.New(options)
	if err != nil {
		return report, err
	}
	return fill(ctx, spec, src, transfer.Job{Checksum: checksum, Limits: o.Limits}, p)
}

// runVolume fills a disk from another one.
func runVolume(ctx context.Context, spec job.Spec, o Options, p *printer) (transfer.Report, error) {
	from := spec.Source.Volume
	src, err := volume.New(volume.Options{Path: from.Path, SizeBytes: from.SizeBytes, Version: from.Version})
	if err != nil {
		return transfer.Report{}, err
	}
	return fill(ctx, spec, src, transfer.Job{Format: image.Raw, Limits: o.Limits}, p)
}

// fill transfers what a source has to the job's target. It closes the source.
func fill(ctx context.Context, spec job.Spec, src source.Source, j transfer.Job, p *printer) (report transfer.Report, err error) {
	defer func() { err = firstError(err, src.Close()) }()
	disk, err := openTarget(spec, p.pulse.beat)
	if err != nil {
		return report, err
	}
	defer func() { err = firstError(err, disk.Close()) }()
	j.Source, j.Target, j.Progress, j.Checkpoint, j.Hash = p.pulse.feel(src), disk, p.progress, p.checkpoint, true
	if spec.Checkpoint != "" {
		j.Resume, j.Resumed = transfer.ParseCheckpoint(spec.Checkpoint), p.resumed
	}
	return transfer.Run(ctx, j)
}

// reach is where the job lets the worker connect to, put on top of ground.
func reach(e *job.Egress, ground *http.Reach) (*http.Reach, error) {
	if e == nil {
		return ground, nil
	}
	var r http.Reach
	if ground != nil {
		r = *ground
	}
	var err error
	if r.Deny, r.Allow, err = e.Parse(); err != nil {
		return nil, broken("the job's egress can't be read: %v", err)
	}
	return &r, nil
}

// openTarget opens the volume, with what an earlier attempt has left on it where that may be gone on with.
func openTarget(spec job.Spec, moved func()) (target.Target, error) {
	switch t := spec.Target; t.Kind {
	case job.File:
		return target.OpenFile(target.FileOptions{Path: t.Path, SizeBytes: t.SizeBytes, AllowSmaller: t.AllowSmaller, Preallocation: preallocation(t, target.Falloc), Keep: spec.Checkpoint != "", Moved: moved})
	case job.Block:
		return target.OpenBlock(target.BlockOptions{Path: t.Path, SizeBytes: t.SizeBytes, Preallocation: preallocation(t, target.Full), Moved: moved})
	default:
		return nil, broken("the job's target is of kind %q; file and block are known", t.Kind)
	}
}

// preallocation is the given one where the job asks for any.
func preallocation(t job.Target, p target.Preallocation) target.Preallocation {
	if t.Preallocate {
		return p
	}
	return target.Sparse
}

func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// startsOverError is a checkpoint that can't be gone on from. It must be forgotten before the volume is cleared, which only the control
// plane can do for good.
type startsOverError struct{ why string }

func (e *startsOverError) Error() string { return e.why }

// brokenError is a job that can't be done as it is.
type brokenError struct{ message string }

func (e *brokenError) Error() string { return e.message }

func broken(format string, args ...any) error { return &brokenError{fmt.Sprintf(format, args...)} }

// unreadable is the error of a mounted file that can't be read.
func unreadable(path string, err error) error {
	return &source.Error{Reason: "SecretUnreadable", Err: err, Message: fmt.Sprintf("%s can't be read: %v", path, err)}
}
