package populate

import (
	"maps"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// newClaim is the claim of a DataVolume: its name, its labels and annotations, owned by it.
func newClaim(w World, v volume.Volume) *corev1.PersistentVolumeClaim {
	dv := w.DataVolume
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       dv.Namespace,
			Name:            dv.Name,
			Labels:          map[string]string{},
			Annotations:     map[string]string{cdi.ContentType: string(cdiv1.DataVolumeKubeVirt), cdi.UsePopulator: "false"},
			OwnerReferences: []metav1.OwnerReference{ownerOf(dv)},
		},
		Spec: v.Claim,
	}
	for key, value := range dv.Annotations {
		if inherited(key) {
			claim.Annotations[key] = value
		}
	}
	maps.Copy(claim.Labels, dv.Labels)
	maps.Copy(claim.Labels, map[string]string{cdi.AppLabel: cdi.AppValue, cdi.ManagedByLabel: cdi.ManagedBy, cdi.ComponentLabel: cdi.ComponentStorage})
	if !isBlock(v.Claim) {
		claim.Labels[cdi.FillingUpAlert] = "disabled"
	}
	return claim
}

// inherited says whether a claim takes an annotation over from its DataVolume, as backup tools and the like want. Those that vmdisk judges
// claims by, and Kubernetes' own, mean something else on a claim.
func inherited(key string) bool {
	domain, _, _ := strings.Cut(key, "/") // a key without a domain is anybody's
	for _, own := range []string{"cdi.kubevirt.io", "vmdisk.io", "kubernetes.io", "k8s.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return false
		}
	}
	return true
}

// source is what the worker is told to read; the zero Source where it reads nothing.
func (f *flow) source() job.Source {
	switch {
	case f.native():
		return job.Source{}
	case IsClone(f.DataVolume):
		return job.Source{Volume: f.sourceVolume()}
	default:
		source, _ := pod.SourceOf(f.DataVolume.Spec.Source)
		return source
	}
}

// sourceVolume is the disk on the source's claim, as the worker finds it.
func (f *flow) sourceVolume() *job.Volume {
	v := &job.Volume{Kind: job.File, Path: path.Join(pod.SourcePath, cdi.DiskImage)}
	if isBlock(f.Clone.Source.Spec) {
		v.Kind, v.Path = job.Block, pod.SourceDevicePath
		v.SizeBytes = f.Clone.Plan.SourceBytes
	}
	return v
}

// newWorker is the claim's worker pod for the next attempt.
func newWorker(f *flow, m Memory) *corev1.Pod {
	if f.native() {
		return newBinder(f, m)
	}
	w, v, source := f.World, f.volume, f.source()
	var mounts []pod.Mount
	var from *corev1.PersistentVolumeClaim
	if IsClone(w.DataVolume) {
		from = f.Clone.Source
	} else {
		_, mounts = pod.SourceOf(w.DataVolume.Spec.Source)
	}
	spec := job.Spec{
		Disk:    w.DataVolume.Namespace + "/" + w.DataVolume.Name,
		Attempt: int(m.Attempts + 1),
		Source:  source,
		Egress:  pod.EgressOf(w.DataVolume),
		Target: job.Target{
			Kind:         job.File,
			Path:         path.Join(pod.VolumePath, cdi.DiskImage),
			SizeBytes:    v.DiskBytes,
			AllowSmaller: v.AllowSmaller,
			Preallocate:  preallocated(w),
		},
		PatienceSeconds: int64(w.Settings.Patience / time.Second),
	}
	if m.Kept != nil {
		spec.Checkpoint = m.Kept.Checkpoint
	}
	if n := w.Settings.Scratch; n > 0 && source.HTTP != nil {
		spec.Scratch = &job.Scratch{Path: pod.ScratchPath, Bytes: n}
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
		From:       from,
		Config:     w.Cluster.Config,
		Settings:   f.placement(),
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
