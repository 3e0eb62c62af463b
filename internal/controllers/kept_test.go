//go:build apiserver

package controllers_test

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/pod"
)

// applyAgain applies a manifest to a disk that is filled.
func applyAgain(p plane) {
	apply := func() {
		p.t.Helper()
		d := vmdisk("again")
		d.APIVersion, d.Kind = "vmdisk.io/v1alpha1", "VMDisk"
		if err := p.Patch(p.t.Context(), d, client.Apply, client.FieldOwner("a-person"), client.ForceOwnership); err != nil { //nolint:staticcheck // typed apply configurations are not generated
			p.t.Fatal(err)
		}
	}
	apply()
	claim := p.fill("again")
	p.gone(named(&corev1.Pod{}, "tenant-a", pod.Name(claim.UID)))
	versions := func() []string {
		var all []string
		for _, o := range []client.Object{vmdisk("again"), named(&cdiv1.DataVolume{}, "tenant-a", "again"), claim} {
			all = append(all, until(p, o, "object", there).GetResourceVersion())
		}
		return all
	}
	p.settled("again")
	before := versions()
	apply()
	if diff := cmp.Diff(before, versions()); diff != "" {
		p.t.Errorf("resource versions: %s", diff)
	}
}

// settled waits until a finished disk's DataVolume shows what the last pass of the controller writes.
func (p plane) settled(name string) {
	p.t.Helper()
	until(p, named(&cdiv1.DataVolume{}, "tenant-a", name), "DataVolume at rest", func(dv *cdiv1.DataVolume) bool {
		return dv.Status.Phase == cdiv1.Succeeded && dv.Status.Progress == "100.0%"
	})
}

// restoreAClaim makes a disk beside a claim that was kept, with its bytes, from one of the same name.
func restoreAClaim(p plane) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "kept", Annotations: map[string]string{cdi.PopulatedFor: "kept"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("replicated"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}},
		},
	}
	p.create(claim)
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
	before := claim.UID
	p.create(vmdisk("kept"))
	p.settled("kept")
	dv := until(p, named(&cdiv1.DataVolume{}, "tenant-a", "kept"), "DataVolume", there)
	until(p, claim, "claim of the DataVolume", func(c *corev1.PersistentVolumeClaim) bool { return metav1.IsControlledBy(c, dv) })
	if claim.UID != before {
		p.t.Error("the claim was made anew")
	}
	p.neverFilled(claim)
}

// restoreAVolume makes a DataVolume beside a volume that is reserved for its claim.
func restoreAVolume(p plane) {
	p.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "static"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: new(corev1.PersistentVolumeBlock), StorageClassName: "replicated",
			ClaimRef:               &corev1.ObjectReference{Namespace: "tenant-a", Name: "static"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "linstor.csi.linbit.com", VolumeHandle: "static"}},
		},
	})
	p.create(&cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "static", Annotations: map[string]string{cdi.CheckStaticVolume: ""}},
		Spec: cdiv1.DataVolumeSpec{
			Source: &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: "https://images.example/debian.qcow2"}},
			Storage: &cdiv1.StorageSpec{StorageClassName: new("replicated"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}}},
		},
	})
	claim := until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "static"), "claim", there)
	if claim.Spec.VolumeName != "static" {
		p.t.Fatalf("the claim is for volume %q", claim.Spec.VolumeName)
	}
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
	p.settled("static")
	p.neverFilled(claim)
}

// neverFilled checks that a disk which is at rest has no worker.
func (p plane) neverFilled(claim *corev1.PersistentVolumeClaim) {
	p.t.Helper()
	err := p.Get(p.t.Context(), client.ObjectKey{Namespace: claim.Namespace, Name: pod.Name(claim.UID)}, &corev1.Pod{})
	if !apierrors.IsNotFound(err) {
		p.t.Errorf("there is a worker for a disk that has its bytes: %v", err)
	}
}

// keepTheWorker has a DataVolume that wants to read its worker's log afterwards.
func keepTheWorker(p plane) {
	p.create(&cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "log", Annotations: map[string]string{cdi.RetainAfterCompletion: "true"}},
		Spec: cdiv1.DataVolumeSpec{
			Source: &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}},
			Storage: &cdiv1.StorageSpec{StorageClassName: new("replicated"),
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}}},
		},
	})
	claim := until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "log"), "claim", there)
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
	worker := until(p, named(&corev1.Pod{}, "tenant-a", pod.Name(claim.UID)), "worker", there)
	p.succeed(worker)
	p.settled("log")
	if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(worker), worker); err != nil || worker.DeletionTimestamp != nil {
		p.t.Errorf("the worker is gone, or going: %v", err)
	}
}
