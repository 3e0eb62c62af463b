//go:build apiserver

package controllers_test

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/pod"
)

// growADisk plays storage, kubelet and a virtual machine for a disk on a filesystem that is made larger.
func growADisk(p plane) {
	class := storageClass("files", "files.csi.example")
	class.AllowVolumeExpansion = new(true)
	p.create(class)
	d := vmdisk("grows")
	d.Spec.StorageClass = "files"
	p.create(d)
	claim := p.fill("grows")
	p.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "virt-launcher-grows"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "compute", Image: "virt-launcher:test"}},
			Volumes:    []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "grows"}}}},
		},
	})
	p.wants("grows", "30Gi")
	until(p, claim, "larger claim", func(c *corev1.PersistentVolumeClaim) bool {
		return c.Spec.Resources.Requests.Storage().CmpInt64(34144990004) == 0 && c.Annotations[v1alpha1.DiskSizeAnnotation] == "20Gi"
	})
	p.status(claim, func() { claim.Status.Capacity = claim.Spec.Resources.Requests })
	p.resizes("grows", metav1.ConditionTrue, "DiskInUse")
	launcher := named(&corev1.Pod{}, "tenant-a", "virt-launcher-grows")
	until(p, launcher, "launcher", there)
	p.status(launcher, func() { launcher.Status.Phase = corev1.PodSucceeded })
	worker := until(p, named(&corev1.Pod{}, "tenant-a", pod.GrowerName(claim.UID)), "worker, once the machine has stopped", there)
	p.succeed(worker)
	p.resizes("grows", metav1.ConditionFalse, "Resized")
	until(p, d, "larger disk", func(d *v1alpha1.VMDisk) bool { return d.Status.Size == "30Gi" })
	p.gone(worker)
}

// refuseToGrow has a disk in a class that doesn't let volumes grow.
func refuseToGrow(p plane) {
	p.create(storageClass("fixed", "linstor.csi.linbit.com"))
	d := vmdisk("fixed")
	d.Spec.StorageClass = "fixed"
	p.create(d)
	claim := p.fill("fixed")
	p.wants("fixed", "30Gi")
	const message = "the disk stays at 20Gi: StorageClass fixed does not let volumes grow: ask the administrator to set allowVolumeExpansion there, if its driver can, or copy the disk into a class that has it"
	until(p, d, "refusal", func(d *v1alpha1.VMDisk) bool {
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "ClassCannotGrow" && c.Message == message
	})
	if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil || claim.Spec.Resources.Requests.Storage().String() != "20Gi" {
		p.t.Errorf("its claim asks for %s: %v", claim.Spec.Resources.Requests.Storage(), err)
	}
}

// fill plays storage and kubelet until a disk holds its bytes, and returns its claim.
func (p plane) fill(name string) *corev1.PersistentVolumeClaim {
	p.t.Helper()
	claim := until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", name), "claim", there)
	p.status(claim, func() {
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	})
	p.succeed(until(p, named(&corev1.Pod{}, "tenant-a", pod.Name(claim.UID)), "worker", there))
	until(p, vmdisk(name), "ready disk", func(d *v1alpha1.VMDisk) bool {
		return meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
	})
	return claim
}

// succeed plays the kubelet for a worker that does its work.
func (p plane) succeed(worker *corev1.Pod) {
	p.t.Helper()
	p.status(worker, func() {
		worker.Status.Phase = corev1.PodSucceeded
		worker.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Container, Image: "vmdisk:test",
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(job.Result{Outcome: job.Succeeded}.Encode())}},
		}}
	})
}

// wants has a person ask for a larger disk.
func (p plane) wants(name, size string) {
	p.t.Helper()
	d := until(p, vmdisk(name), "disk", there)
	before := d.DeepCopy()
	d.Spec.Storage = new(resource.MustParse(size))
	if err := p.Patch(p.t.Context(), d, client.MergeFrom(before)); err != nil {
		p.t.Fatal(err)
	}
}

// resizes waits until the disk says where it is.
func (p plane) resizes(name string, status metav1.ConditionStatus, reason string) {
	p.t.Helper()
	until(p, vmdisk(name), reason, func(d *v1alpha1.VMDisk) bool {
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionResizing)
		return c != nil && c.Status == status && c.Reason == reason
	})
}
