package kube

import (
	"bufio"
	"context"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// Log reads the end of a worker's log; nil where it can't be read.
type Log func(ctx context.Context, worker *corev1.Pod) *populate.Log

// ReadLog reads the end of a worker's log, through the API server. A log that can't be read just now is no error: the disk is being filled
// all the same.
func ReadLog(pods corev1client.PodsGetter) Log {
	return func(ctx context.Context, worker *corev1.Pod) *populate.Log {
		last, err := LastLog(ctx, pods, worker)
		if err != nil {
			return nil
		}
		return last
	}
}

// LastLog is the end of a worker's log. Behind the last words of a worker that broke may stand a stack, so more is read of one that has ended.
func LastLog(ctx context.Context, pods corev1client.PodsGetter, worker *corev1.Pod) (*populate.Log, error) {
	const lines, more, patience = 5, 500, 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := &corev1.PodLogOptions{Container: pod.Container, Timestamps: true, TailLines: new(int64(lines))}
	if worker.Status.Phase != corev1.PodRunning {
		o.TailLines = new(int64(more))
	}
	log, err := pods.Pods(worker.Namespace).GetLogs(worker.Name, o).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return lastOf(log), nil
}

// mostLog is how much of a log is looked at, in bytes.
const mostLog = 256 << 10

// lastOf is the last progress in a log whose lines begin with the time at which they were written, and that of the last line.
func lastOf(log io.Reader) *populate.Log {
	last := &populate.Log{}
	for scan := bufio.NewScanner(io.LimitReader(log, mostLog)); scan.Scan(); {
		at, line, _ := strings.Cut(scan.Text(), " ")
		if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
			last.At = t
		}
		if p, ok := job.ParseProgress(line); ok {
			last.Progress = p
		}
	}
	return last
}
