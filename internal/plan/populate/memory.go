package populate

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

// memoryVersion is the version of Memory's encoding.
const memoryVersion = 1

// Memory is what must be remembered of a DataVolume, since nothing in the cluster shows it any more. It speaks of one
// claim; a new claim begins with an empty memory.
type Memory struct {
	Version int       `json:"version"`
	Claim   types.UID `json:"claim"`
	// Attempts have ended with a fault, and were or will be repeated.
	Attempts int32 `json:"attempts"`
	// Pod was the last worker whose end is remembered.
	Pod types.UID `json:"pod,omitempty"`
	// Outcome, Reason and Message are how the last attempt ended.
	Outcome job.Outcome `json:"outcome,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Message string      `json:"message,omitempty"`
	// Next is when the next attempt is due.
	Next *metav1.Time `json:"next,omitempty"`
	// Source is a digest of the source as the newest worker was told it.
	Source string `json:"source,omitempty"`
	// Kept is how far that has come; nil: nothing that could be gone on from.
	Kept *Kept `json:"kept,omitempty"`
	// StartsOver is why the next attempt, or the one at work, does not go on from what an earlier one had done.
	StartsOver string `json:"startsOver,omitempty"`
	// Retried is the newest value of the retry annotation that was honoured.
	Retried string `json:"retried,omitempty"`
}

// recall reads the memory of a claim. A memory of another claim, or one that can't be read, is empty: then the worst is one attempt too many.
func recall(dv *cdiv1.DataVolume, claim types.UID) Memory {
	var m Memory
	err := json.Unmarshal([]byte(dv.Annotations[v1alpha1.MemoryAnnotation]), &m)
	if err != nil || m.Version != memoryVersion || m.Claim != claim {
		return Memory{Version: memoryVersion, Claim: claim}
	}
	return m
}

// encode is the memory as the annotation's value.
func (m Memory) encode() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, integers and a time always encode
	}
	return string(b)
}

// after is the memory once a worker's end is known. Only an attempt that is to be repeated because of a fault is counted; after one
// without fault the next follows at once. A source that asks to be left alone is, but no longer than longestWait. Kept is the newest checkpoint
// that the worker has told; nil: none that is newer than what it was given.
func (m Memory) after(pod types.UID, r job.Result, kept *Kept, ended time.Time) Memory {
	m.Pod, m.Outcome, m.Reason, m.Message, m.Next = pod, r.Outcome, r.Reason, r.Message, nil
	m.Kept, m.StartsOver = m.goesOn(r, kept)
	switch r.Outcome {
	case job.Succeeded, job.Interrupted, job.Refused:
		return m
	}
	m.Attempts++
	asked := time.Duration(min(r.RetryAfterSeconds, int64(longestWait/time.Second))) * time.Second
	wait := max(backoff(m.Attempts), asked)
	m.Next = &metav1.Time{Time: ended.Add(wait).Truncate(time.Second)}
	return m
}

// goesOn is from where the attempt after a worker's end goes on, or why it doesn't although there was something. A worker that was given a checkpoint
// has not cleared the disk: so that stays good where the worker has told no newer one.
func (m Memory) goesOn(r job.Result, newest *Kept) (kept *Kept, startsOver string) {
	switch {
	case r.Outcome == job.Succeeded || r.Outcome == job.Refused:
		return nil, ""
	case r.StartsOver != "":
		return nil, r.StartsOver
	case newest != nil:
		return newest, ""
	case m.Kept != nil && r.Reason == job.InternalError: // it would fail again in the same way, for ever
		return nil, "the last worker failed by a fault of its own when it went on"
	default:
		return m.Kept, ""
	}
}

// again is the memory once somebody asks for a try now, by a value of the retry annotation.
func (m Memory) again(value string) Memory {
	m.Retried, m.Next = value, nil
	if m.Outcome == job.Refused {
		m.Outcome, m.Reason, m.Message = "", "", ""
	}
	return m
}

// faulty says whether the last attempt ended with a fault.
func (m Memory) faulty() bool {
	return m.Attempts > 0 && m.Outcome != job.Succeeded && m.Outcome != ""
}

const (
	shortestWait = 5 * time.Second
	longestWait  = 5 * time.Minute
)

// backoff is the wait after the nth attempt: 5 s, doubled each time, at most 5 minutes.
func backoff(n int32) time.Duration {
	wait := shortestWait
	for ; n > 1 && wait < longestWait; n-- {
		wait *= 2
	}
	return min(wait, longestWait)
}
