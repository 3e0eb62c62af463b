package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
	"vmdisk.io/vmdisk/internal/transfer"
)

// The reasons that are not the source's, the image's or the target's own.
const (
	// InvalidChecksum: the checksum that was asked for is none.
	InvalidChecksum image.Reason = "InvalidChecksum"

	checksumMismatch = "ChecksumMismatch"
	interrupted      = "Interrupted"
	startsOver       = "StartsOver"
	stalledReason    = "Stalled"
	invalidJob       = "InvalidJob"
)

// judge turns the error of a transfer into what the control plane is told.
func judge(ctx context.Context, err error, stderr io.Writer) job.Result {
	var (
		refused  *image.Refused
		checksum *stream.ChecksumError
		from     *source.Error
		to       *target.Error
		spec     *brokenError
		over     *startsOverError
		stalled  *stalledError
		panic    *transfer.Panic
	)
	switch {
	case err == nil:
		return job.Result{Outcome: job.Succeeded}
	case errors.As(err, &panic):
		return panicked(panic, stderr)
	case errors.As(err, &stalled):
		return job.Result{Outcome: job.TargetFailed, Reason: stalledReason, Message: stalled.Error()}
	case errors.As(err, &over):
		return job.Result{Outcome: job.Interrupted, Reason: startsOver, Message: "the import starts over: " + over.why, StartsOver: over.why}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return job.Result{Outcome: job.Interrupted, Reason: interrupted, Message: "the worker was told to stop before it was done"}
	case errors.As(err, &checksum):
		return job.Result{Outcome: job.Refused, Reason: checksumMismatch, Message: checksum.Error() + ": the file at the source is not the one that was expected, or the checksum is outdated"}
	case errors.As(err, &refused):
		return job.Result{Outcome: job.Refused, Reason: string(refused.Reason), Message: refused.Message}
	case errors.As(err, &to):
		return job.Result{Outcome: job.TargetFailed, Reason: string(to.Reason), Message: to.Message}
	case errors.As(err, &from):
		return judgeSource(from)
	case errors.As(err, &spec):
		return job.Result{Outcome: job.Broken, Reason: invalidJob, Message: spec.message}
	default:
		return job.Result{Outcome: job.Broken, Reason: job.InternalError, Message: err.Error()}
	}
}

// judgeSource tells a request that can never be made from a source that may deliver another time. A status such as 404
// is of the second kind: somebody may put the file there.
func judgeSource(e *source.Error) job.Result {
	r := job.Result{
		Outcome: job.SourceFailed, Reason: string(e.Reason), Message: e.Message,
		RetryAfterSeconds: int64((e.RetryAfter + time.Second - 1) / time.Second),
	}
	switch e.Reason {
	case source.InvalidURL, source.InvalidHeader:
		r.Outcome = job.Refused
	}
	return r
}

// panicked is the result of a panic. The stack is for the log: it is too long for a person who made a disk.
func panicked(p *transfer.Panic, stderr io.Writer) job.Result {
	_, _ = fmt.Fprintf(stderr, "%v\n%s\n", p, p.Stack) // there is nobody else to tell
	return job.Result{Outcome: job.Broken, Reason: job.InternalError, Message: fmt.Sprintf("the worker failed by a fault of its own (%v): please report it, with this worker's log", p)}
}
