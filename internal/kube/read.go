package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/job"
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

// ReadProgress reads a worker's progress from the end of its log. A log that can't be read just now
// is no progress, not an error: the disk is being filled all the same.
func ReadProgress(pods corev1client.PodsGetter) Progress {
	return func(ctx context.Context, worker *corev1.Pod) *job.Progress {
		p, err := LastProgress(ctx, pods, worker)
		if err != nil {
			return nil
		}
		return p
	}
}
