package datavolume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/kube"
)

// ReadProgress reads a worker's progress from its log. A log that can't be read just now is no progress, not an error: the disk is
// being filled all the same.
func ReadProgress(pods corev1client.PodsGetter) Progress {
	return func(ctx context.Context, worker *corev1.Pod) *job.Progress {
		p, err := kube.LastProgress(ctx, pods, worker)
		if err != nil {
			return nil
		}
		return p
	}
}
