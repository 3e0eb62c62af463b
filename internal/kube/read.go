package kube

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// Object is a pointer to a T that is an API object.
type Object[T any] interface {
	*T
	client.Object
}

// Find reads one object; nil: there is none.
func Find[T any, P Object[T]](ctx context.Context, from client.Reader, key types.NamespacedName) (P, error) {
	o := P(new(T))
	if err := from.Get(ctx, key, o); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("read %T %s: %w", *o, key, err)
	}
	return o, nil
}

// Log reads the end of a worker's log; nil where it can't be read.
type Log func(ctx context.Context, worker *corev1.Pod) *populate.Log

// ReadLog reads the end of a worker's log, through the API server. A log that can't be read just now is no error: the disk is being filled
// all the same. Behind the last words of a worker that broke may stand a stack, so more is read of one that has ended.
func ReadLog(pods corev1client.PodsGetter) Log {
	const lines, more, patience = 5, 500, 5 * time.Second
	return func(ctx context.Context, worker *corev1.Pod) *populate.Log {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		o := &corev1.PodLogOptions{Container: pod.Container, Timestamps: true, TailLines: new(int64(lines))}
		if worker.Status.Phase != corev1.PodRunning {
			o.TailLines = new(int64(more))
		}
		log, err := pods.Pods(worker.Namespace).GetLogs(worker.Name, o).Stream(ctx)
		if err != nil {
			return nil
		}
		defer log.Close()
		return lastOf(log)
	}
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
