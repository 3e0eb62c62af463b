//go:build apiserver

package controllers_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// cloneDisks plays storage for disks that are made from a claim of their namespace: one whose class is another driver's, and one whose driver
// should clone and can't. The cluster serves no snapshots.
func cloneDisks(p plane) {
	fast := storageClass("fast", "fast.csi.example")
	fast.Annotations = map[string]string{cdi.CloneStrategyAnnotation: "csi-clone"}
	p.create(fast)
	p.create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "fast.csi.example"}})
	p.create(cloneOf("missing", "replicated", "late"))
	until(p, named(&cdiv1.DataVolume{}, "tenant-a", "missing"), "DataVolume that waits for its source", func(dv *cdiv1.DataVolume) bool {
		return boundReason(dv) == "SourceNotFound"
	})
	p.baseClaim("tenant-a", "late")
	until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "missing"), "claim, once the source is there", there)

	p.baseClaim("tenant-a", "base")
	p.create(cloneOf("copied", "replicated", "base"))
	claim := until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "copied"), "claim", there)
	if got := claim.Annotations; claim.Spec.DataSource != nil || got[cdi.CloneType] != "copy" || got[cdi.CloneFallbackReason] != "DriverMismatch" {
		p.t.Errorf("the claim of a copy names %v, and says %v", claim.Spec.DataSource, got)
	}
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
	worker := until(p, named(&corev1.Pod{}, "tenant-a", pod.Name(claim.UID)), "worker", there)
	reads := func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "base" && v.PersistentVolumeClaim.ReadOnly
	}
	if !slices.ContainsFunc(worker.Spec.Volumes, reads) {
		p.t.Errorf("the worker mounts %+v: want the source, read-only", worker.Spec.Volumes)
	}
	p.succeed(worker)
	p.settled("copied")

	p.create(cloneOf("cloned", "fast", "base"))
	claim = until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "cloned"), "claim", there)
	if s := claim.Spec.DataSource; s == nil || s.Kind != "PersistentVolumeClaim" || s.Name != "base" || claim.Annotations[cdi.CloneType] != "csi-clone" {
		p.t.Fatalf("the claim of a clone names %v, and says %v", s, claim.Annotations)
	}
	p.create(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "refused"}, Type: corev1.EventTypeWarning, Reason: "ProvisioningFailed", Count: 1,
		Message:        "CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported",
		InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "tenant-a", Name: "cloned", UID: claim.UID},
		LastTimestamp:  metav1.Now(),
	})
	first := claim.UID
	until(p, claim, "deleted claim", func(c *corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil })
	before := claim.DeepCopy()
	claim.Finalizers = nil // Kubernetes' own controller would
	if err := p.Patch(p.t.Context(), claim, client.MergeFrom(before)); err != nil {
		p.t.Fatal(err)
	}
	claim = until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "cloned"), "claim of the copy", func(c *corev1.PersistentVolumeClaim) bool { return c.UID != first })
	if got := claim.Annotations; claim.Spec.DataSource != nil || got[cdi.CloneFallbackReason] != "DriverCannotClone" {
		p.t.Errorf("the claim of the copy names %v, and says %v", claim.Spec.DataSource, got)
	}
	p.status(claim, func() { claim.Status.Phase = corev1.ClaimBound })
	p.succeed(until(p, named(&corev1.Pod{}, "tenant-a", pod.Name(claim.UID)), "worker", there))
	p.settled("cloned")
}

func boundReason(dv *cdiv1.DataVolume) string {
	for _, c := range dv.Status.Conditions {
		if c.Type == cdiv1.DataVolumeBound {
			return c.Reason
		}
	}
	return ""
}

// cloneOf is a DataVolume as large as what it is made from.
func cloneOf(name, class, source string) *cdiv1.DataVolume {
	return &cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name},
		Spec: cdiv1.DataVolumeSpec{
			Source:  &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Namespace: "tenant-a", Name: source}},
			Storage: &cdiv1.StorageSpec{StorageClassName: &class},
		},
	}
}

// baseClaim is a claim that is bound and used by nobody.
func (p plane) baseClaim(namespace, name string) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: new("fast"), VolumeName: "pv-" + name,
			Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}
	p.create(claim)
	p.create(&corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes, StorageClassName: "fast",
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "fast.csi.example", VolumeHandle: name}}},
	})
	p.status(claim, func() { claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, size })
}

// cloneImages plays storage for a disk that is made from a golden image, and for one that is deleted meanwhile.
func cloneImages(p plane) {
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "images"}})
	p.baseClaim("images", "golden-debian")
	fromImage := func(name string) *v1alpha1.VMDisk {
		d := vmdisk(name)
		d.Spec.Source = &v1alpha1.Source{Image: &v1alpha1.NamedSource{Name: "debian"}}
		return d
	}
	p.create(fromImage("of-image"))
	claim := until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "of-image"), "claim", there)
	if ref := claim.Spec.DataSourceRef; ref == nil || ref.Kind != cdi.CloneSourceKind {
		p.t.Fatalf("the claim's dataSourceRef is %v", ref)
	}
	away := named(&corev1.PersistentVolumeClaim{}, "images", populate.AwayName(claim.UID))
	until(p, away, "claim beside the image", there)
	made := p.bind(away)
	p.succeed(until(p, named(&corev1.Pod{}, "images", pod.Name(away.UID)), "worker beside the image", there))
	volume := until(p, named(&corev1.PersistentVolume{}, "", made.Name), "volume of the disk", func(v *corev1.PersistentVolume) bool { return v.Spec.ClaimRef.UID == claim.UID })
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		p.t.Errorf("on its way it is reclaimed by %s", volume.Spec.PersistentVolumeReclaimPolicy)
	}
	p.bindTo(claim, volume)
	p.goes(named(&cdiv1.DataVolume{}, "images", away.Name))
	p.goes(away)
	until(p, fromImage("of-image"), "ready disk", func(d *v1alpha1.VMDisk) bool {
		return meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionWorkloadsReady) && d.Status.Clone != nil && d.Status.Clone.Strategy == "host-assisted"
	})
	until(p, volume, "volume as before", func(v *corev1.PersistentVolume) bool {
		return v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && len(v.Annotations) == 0
	})

	p.create(fromImage("given-up"))
	claim = until(p, named(&corev1.PersistentVolumeClaim{}, "tenant-a", "given-up"), "claim", there)
	dv := until(p, named(&cdiv1.DataVolume{}, "images", populate.AwayName(claim.UID)), "DataVolume beside the image", there)
	for _, o := range []client.Object{fromImage("given-up"), named(&cdiv1.DataVolume{}, "tenant-a", "given-up"), claim} { // there is no garbage collector
		if err := p.Delete(p.t.Context(), o); client.IgnoreNotFound(err) != nil {
			p.t.Fatal(err)
		}
	}
	p.goes(claim)
	p.goes(dv)
}
