//go:build apiserver

package controllers_test

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/pod"
)

// retryAFailedDisk plays a source that holds a web page at first. What the worker had told before is gone on from only where that is of use.
func retryAFailedDisk(p plane) {
	p.create(vmdisk("third"))
	claim := until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "third"), "claim", there)
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
	worker := func(after types.UID) *corev1.Pod {
		w := named(&corev1.Pod{}, "tenant-a", pod.Name(claim.UID))
		return until(p, w, "worker", func(w *corev1.Pod) bool { return w.UID != after })
	}
	ends := func(w *corev1.Pod, r job.Result) {
		p.status(w, func() {
			w.Status.Phase = corev1.PodFailed
			w.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: pod.Container, Image: "vmdisk:test", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(r.Encode())}},
			}}
		})
	}
	first := worker("")
	ends(first, job.Result{Outcome: job.Interrupted, Message: "told to stop", Checkpoint: "A"})
	second := worker(first.UID)
	if spec, err := job.ParseSpec(second.Spec.Containers[0].Env[0].Value); err != nil || spec.Checkpoint != "A" {
		p.t.Errorf("the second worker is told %+v, %v: want that it goes on from A", spec, err)
	}
	ends(second, job.Result{Outcome: job.Refused, Message: "a web page"})
	failed := until(p, vmdisk("third"), "failed disk", func(d *v1alpha1.VMDisk) bool { return d.Status.Phase == "Failed" })
	until(p, named(&corev1.Namespace{}, "", "tenant-a"), "end of the second worker", func(*corev1.Namespace) bool {
		return apierrors.IsNotFound(p.Get(p.t.Context(), client.ObjectKeyFromObject(second), &corev1.Pod{}))
	})
	before := failed.DeepCopy()
	metav1.SetMetaDataAnnotation(&failed.ObjectMeta, v1alpha1.RetryAnnotation, "1")
	if err := p.Patch(p.t.Context(), failed, client.MergeFrom(before)); err != nil {
		p.t.Fatal(err)
	}
	if spec, err := job.ParseSpec(worker(second.UID).Spec.Containers[0].Env[0].Value); err != nil || spec.Checkpoint != "" {
		p.t.Errorf("the third worker is told %+v, %v: want that it begins at the beginning", spec, err)
	}
}
