package kube

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/job"
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

// Progress reads the last progress line of a worker's log; nil where there is none yet.
type Progress func(ctx context.Context, worker *corev1.Pod) *job.Progress

// ReadProgress reads a worker's progress from the end of its log, through the API server. A log that can't be read just now
// is no progress, not an error: the disk is being filled all the same.
func ReadProgress(pods corev1client.PodsGetter) Progress {
	const lines, most, patience = 5, 8 << 10, 5 * time.Second
	return func(ctx context.Context, worker *corev1.Pod) *job.Progress {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		log, err := pods.Pods(worker.Namespace).GetLogs(worker.Name, &corev1.PodLogOptions{
			Container: pod.Container,
			TailLines: new(int64(lines)),
		}).Stream(ctx)
		if err != nil {
			return nil
		}
		defer log.Close()
		var last *job.Progress
		for scan := bufio.NewScanner(io.LimitReader(log, most)); scan.Scan(); {
			if p, ok := job.ParseProgress(scan.Text()); ok {
				last = &p
			}
		}
		return last
	}
}
