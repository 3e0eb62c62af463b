package datavolume

import (
	"bufio"
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/pod"
)

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
