package populate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vmdisk.io/vmdisk/internal/job"
)

// Kept is how far an attempt has come on a volume, for the next one to go on from.
type Kept struct {
	// Checkpoint is in the worker's own words.
	Checkpoint string `json:"checkpoint"`
	// Volume is the PersistentVolume that was filled so far. A claim keeps its volume for life; this says so once more.
	Volume string `json:"volume"`
	// Saved is when it was written down.
	Saved metav1.Time `json:"saved"`
}

// keepEvery is how often at most the newest checkpoint is written down while a worker runs, and as many times less often as there are fifties of
// active disks: what an attempt loses at most, in time, where its log is lost as well, as with its node. From one that ends by itself
// nothing is lost.
const keepEvery = 30 * time.Second

// kept: the newest checkpoint of the worker at work is written down now and then, and at once where somebody has told the worker to go.
func kept(f *flow) *verdict {
	if _, _, over := endOf(f.Worker, f.now); f.Worker == nil || over || f.Log == nil || f.Log.Progress.Checkpoint == "" {
		return nil
	}
	old := f.memory.Kept
	switch newest := f.Log.Progress.Checkpoint; {
	case old != nil && old.Checkpoint == newest:
	case old != nil && f.now.Sub(old.Saved.Time) < keepEvery*time.Duration(1+f.Active/50) && f.Worker.DeletionTimestamp == nil:
	default:
		f.memory.Kept = f.keep(newest, f.now)
	}
	return nil
}

// keep is a checkpoint of the claim's worker as it is remembered.
func (f *flow) keep(checkpoint string, at time.Time) *Kept {
	return &Kept{Checkpoint: checkpoint, Volume: f.Claim.Spec.VolumeName, Saved: metav1.Time{Time: at.Truncate(time.Second)}}
}

// newest is the newest checkpoint of a worker that has ended: its own word, else what stands in its log; nil for none.
func (f *flow) newest(r job.Result) *Kept {
	switch {
	case r.Checkpoint != "":
		return f.keep(r.Checkpoint, f.now)
	case f.Log != nil && f.Log.Progress.Checkpoint != "":
		return f.keep(f.Log.Progress.Checkpoint, f.now)
	default:
		return nil
	}
}

// begins is the memory as an attempt begins that reads a source into a volume. What was kept of another source or volume is dropped: the
// worker compares what the server and the disk say of themselves, and can't know that it was told to read something else.
func (m Memory) begins(source job.Source, volume string) Memory {
	told := digest(source)
	switch {
	case m.Kept == nil:
	case m.Source != told:
		m.Kept, m.StartsOver = nil, "the disk's source was changed"
	case m.Kept.Volume != volume:
		m.Kept, m.StartsOver = nil, "the claim has another volume than before"
	}
	m.Source = told
	return m
}

// digest is a short name for a source. The Secrets and certificates by which it is read are not in it: they may be replaced at any time.
func digest(source job.Source) string {
	b, err := json.Marshal(source)
	if err != nil {
		panic(err) // strings and booleans always encode
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// tale says how the worker at work has begun; empty where there is nothing to tell. It is also an event's reason and message.
func (f *flow) tale() (reason, sentence string) {
	if f.memory.StartsOver != "" {
		return "ImportStartedOver", "the import started over: " + f.memory.StartsOver
	}
	if f.Log == nil || f.Log.Progress.ResumedAt <= 0 {
		return "", ""
	}
	at := job.Progress{DoneBytes: f.Log.Progress.ResumedAt, TotalBytes: f.Log.Progress.TotalBytes}
	percent, ok := at.Percent()
	if !ok {
		return "", "" // the next line will have it
	}
	return "ImportResumed", fmt.Sprintf("the import went on at %.2f%%, where an earlier worker had stopped", percent)
}
