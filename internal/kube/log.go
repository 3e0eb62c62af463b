package kube

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

// LastProgress reads the last progress line at the end of a worker's log, through the API server; nil where there is none yet.
func LastProgress(ctx context.Context, pods corev1client.PodsGetter, worker *corev1.Pod) (*job.Progress, error) {
	const lines, most, patience = 5, 8 << 10, 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	log, err := pods.Pods(worker.Namespace).GetLogs(worker.Name, &corev1.PodLogOptions{
		Container: pod.Container,
		TailLines: new(int64(lines)),
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var last *job.Progress
	for scan := bufio.NewScanner(io.LimitReader(log, most)); scan.Scan(); {
		if p, ok := job.ParseProgress(scan.Text()); ok {
			last = &p
		}
	}
	return last, nil
}
