package populate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vmdisk.io/vmdisk/internal/job"
)

// Attempt is how one worker ended, for those who count.
type Attempt struct {
	// Pod is the worker's UID: an attempt is counted once.
	Pod types.UID
	// Source is the kind of source, such as "http".
	Source       string
	Outcome      job.Outcome
	ReadBytes    int64
	WrittenBytes int64
	// Took is how long the worker ran; Whole is the time from the DataVolume's creation to the worker's end.
	Took, Whole time.Duration
}

// Ended says whether a worker has ended whose end is not remembered yet, and how. What the worker says is not trusted with more than it
// can mean: who may enter its pod could write anything there.
func Ended(w World, now time.Time) (Attempt, bool) {
	if w.DataVolume == nil || w.Claim == nil || w.Worker == nil || !w.owned() {
		return Attempt{}, false
	}
	result, ended, over := endOf(w.Worker, now)
	if !over || recall(w.DataVolume, w.Claim.UID).Pod == w.Worker.UID {
		return Attempt{}, false
	}
	a := Attempt{
		Pod: w.Worker.UID, Source: "blank", Outcome: known(result.Outcome),
		ReadBytes: max(0, result.ReadBytes), WrittenBytes: max(0, result.WrittenBytes),
		Whole: max(0, ended.Sub(w.DataVolume.CreationTimestamp.Time)),
	}
	switch s := w.DataVolume.Spec.Source; {
	case IsClone(w.DataVolume):
		a.Source = "volume"
	case s != nil && s.HTTP != nil:
		a.Source = "http"
	}
	if status, ok := containerStatus(w.Worker); ok && status.State.Terminated != nil && !status.State.Terminated.StartedAt.IsZero() {
		a.Took = max(0, ended.Sub(status.State.Terminated.StartedAt.Time))
	}
	return a, true
}

// known is an outcome, or Broken for a word that is none.
func known(o job.Outcome) job.Outcome {
	switch o {
	case job.Succeeded, job.Refused, job.SourceFailed, job.TargetFailed, job.Interrupted:
		return o
	default:
		return job.Broken
	}
}
