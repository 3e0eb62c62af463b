package populate

import (
	"maps"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// served says whether this version can fill a disk from the spec's source. Its error is a *volume.Invalid.
func served(spec cdiv1.DataVolumeSpec) error {
	no := func(what string) error {
		return &volume.Invalid{Message: what + " is not served by this version of vmdisk: it fills disks from http and blank sources"}
	}
	s := spec.Source
	switch {
	case spec.ContentType != "" && spec.ContentType != cdiv1.DataVolumeKubeVirt:
		return no("content type " + string(spec.ContentType))
	case spec.SourceRef != nil:
		return no("sourceRef")
	case s == nil:
		return no("a claim that another controller populates")
	case s.S3 != nil:
		return no("source s3")
	case s.GCS != nil:
		return no("source gcs")
	case s.Registry != nil:
		return no("source registry")
	case s.PVC != nil:
		return no("source pvc")
	case s.Snapshot != nil:
		return no("source snapshot")
	case s.Upload != nil:
		return no("source upload")
	case s.Imageio != nil:
		return no("source imageio")
	case s.VDDK != nil:
		return no("source vddk")
	case s.HTTP == nil && s.Blank == nil:
		return &volume.Invalid{Message: "the DataVolume's source is empty: set one, such as http or blank"}
	case s.HTTP != nil && s.Blank != nil:
		return &volume.Invalid{Message: "the DataVolume has several sources: keep one of them"}
	}
	return nil
}

// newClaim is the claim of a DataVolume: its name, its labels and annotations, owned by it. The DataVolume's own memory stays behind.
func newClaim(w World, v volume.Volume) *corev1.PersistentVolumeClaim {
	dv := w.DataVolume
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       dv.Namespace,
			Name:            dv.Name,
			Labels:          map[string]string{},
			Annotations:     map[string]string{cdi.ContentType: string(cdiv1.DataVolumeKubeVirt)},
			OwnerReferences: []metav1.OwnerReference{ownerOf(dv)},
		},
		Spec: v.Claim,
	}
	maps.Copy(claim.Labels, dv.Labels)
	maps.Copy(claim.Labels, map[string]string{cdi.AppLabel: cdi.AppValue, cdi.ManagedByLabel: cdi.ManagedBy, cdi.ComponentLabel: cdi.ComponentStorage})
	if !isBlock(v.Claim) {
		claim.Labels[cdi.FillingUpAlert] = "disabled"
	}
	return claim
}

// newWorker is the claim's worker pod for an attempt.
func newWorker(w World, v volume.Volume, attempt int32) *corev1.Pod {
	source, mounts := pod.SourceOf(w.DataVolume.Spec.Source)
	spec := job.Spec{
		Disk:    w.DataVolume.Namespace + "/" + w.DataVolume.Name,
		Attempt: int(attempt),
		Source:  source,
		Target: job.Target{
			Kind:         job.File,
			Path:         path.Join(pod.VolumePath, cdi.DiskImage),
			SizeBytes:    v.DiskBytes,
			AllowSmaller: v.AllowSmaller,
			Preallocate:  preallocated(w),
		},
	}
	if isBlock(v.Claim) {
		spec.Target.Kind, spec.Target.Path = job.Block, pod.DevicePath
	}
	return pod.Worker(pod.Request{
		DataVolume: w.DataVolume,
		Claim:      w.Claim,
		Owner:      ownerOf(w.DataVolume),
		Job:        spec,
		Mounts:     mounts,
		Config:     w.Cluster.Config,
		Settings:   w.Settings,
	})
}

func isBlock(claim corev1.PersistentVolumeClaimSpec) bool {
	return claim.VolumeMode != nil && *claim.VolumeMode == corev1.PersistentVolumeBlock
}

// preallocated says whether the disk's space is to be allocated: as the DataVolume says, else as the cluster is configured.
func preallocated(w World) bool {
	if p := w.DataVolume.Spec.Preallocation; p != nil {
		return *p
	}
	return w.Cluster.Config != nil && w.Cluster.Config.Status.Preallocation
}
