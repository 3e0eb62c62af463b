package status

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/pod"
)

// Progress is how far a worker is.
type Progress struct {
	// Percent is negative while the total is not known.
	Percent float64 `json:"percent"`
	// DoneBytes of TotalBytes are through; both are 0 where only the percentage is known.
	DoneBytes  int64 `json:"doneBytes,omitempty"`
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// BytesPerSecond and SecondsLeft are 0 while they can't be told. Average says that they are since the worker began, and not now's.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	SecondsLeft    int64 `json:"secondsLeft,omitempty"`
	Average        bool  `json:"average,omitempty"`
}

// progress is the worker's own count, else the DataVolume's percentage. since is when the DataVolume says that the worker began.
func (s Seen) progress(before *Seen, since time.Time) *Progress {
	if s.Progress == nil {
		return s.byPercentage(since)
	}
	p := &Progress{Percent: -1, DoneBytes: s.Progress.DoneBytes, TotalBytes: s.Progress.TotalBytes}
	if percent, ok := s.Progress.Percent(); ok {
		p.Percent = percent
	}
	from, began := job.Progress{}, s.began(since)
	if before != nil && before.Progress != nil && before.sameWorker(s) && s.Progress.DoneBytes >= before.Progress.DoneBytes {
		from, began = *before.Progress, before.At
	} else {
		p.Average = true
	}
	took := s.At.Sub(began)
	if took < shortestLook || began.IsZero() {
		return p
	}
	p.BytesPerSecond = int64(float64(p.DoneBytes-from.DoneBytes) / took.Seconds())
	if p.BytesPerSecond > 0 && p.TotalBytes > p.DoneBytes {
		p.SecondsLeft = (p.TotalBytes - p.DoneBytes) / p.BytesPerSecond
	}
	return p
}

// shortestLook is how far apart two looks must be for a rate: a worker tells its progress once a second.
const shortestLook = time.Second

// byPercentage is the progress where the log can't be read.
func (s Seen) byPercentage(since time.Time) *Progress {
	text := ""
	switch {
	case s.DataVolume != nil:
		text = string(s.DataVolume.Status.Progress)
	case s.Disk != nil:
		text = s.Disk.Status.Progress
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil {
		return nil // N/A: it is not known yet
	}
	p := &Progress{Percent: percent, Average: true}
	took := s.At.Sub(s.began(since)).Seconds()
	if percent >= 1 && percent < 100 && took >= shortestLook.Seconds() && !since.IsZero() {
		p.SecondsLeft = int64(took * (100 - percent) / percent)
	}
	return p
}

// began is when the worker began: by its pod if that can be seen.
func (s Seen) began(since time.Time) time.Time {
	if c, ok := s.container(); ok && c.State.Running != nil && !c.State.Running.StartedAt.IsZero() {
		return c.State.Running.StartedAt.Time
	}
	return since
}

// container is the state of the worker's own container.
func (s Seen) container() (corev1.ContainerStatus, bool) {
	if s.Worker == nil {
		return corev1.ContainerStatus{}, false
	}
	for _, c := range s.Worker.Status.ContainerStatuses {
		if c.Name == pod.Container {
			return c, true
		}
	}
	return corev1.ContainerStatus{}, false
}

// sameWorker says whether two looks saw one worker: the next one begins to count anew.
func (s Seen) sameWorker(other Seen) bool {
	return s.Worker != nil && other.Worker != nil && s.Worker.UID == other.Worker.UID
}
