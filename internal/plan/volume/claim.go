package volume

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// OfClaim is the volume of a claim that exists: with its own class and modes, whatever defaults and profiles would say by now. Its disk is
// as large as the DataVolume's storage section says; without one, as what the claim's filesystem has room for.
func OfClaim(claim corev1.PersistentVolumeClaimSpec, spec cdiv1.DataVolumeSpec, cluster Cluster) Volume {
	v := Volume{Claim: claim, Class: cluster.ClassOf(claim)}
	if spec.Storage != nil {
		if size, err := requested(spec.Storage.Resources); err == nil {
			v.DiskBytes = roundUp(size, sectorBytes)
			return v
		}
	}
	q := claim.Resources.Requests[corev1.ResourceStorage]
	v.fitInto(q.Value(), cluster.Config)
	return v
}

// ClassOf is the own class of a claim that exists; nil where it has none, or that is gone.
func (cluster Cluster) ClassOf(claim corev1.PersistentVolumeClaimSpec) *storagev1.StorageClass {
	if claim.StorageClassName == nil {
		return nil
	}
	i := slices.IndexFunc(cluster.Classes, func(c storagev1.StorageClass) bool { return c.Name == *claim.StorageClassName })
	if i < 0 {
		return nil
	}
	return &cluster.Classes[i]
}

// fitInto makes the disk as large as a hand-written claim of size bytes has room for.
func (v *Volume) fitInto(size int64, config *cdiv1.CDIConfig) {
	v.DiskBytes = size
	if Mode(v.Claim.VolumeMode) == corev1.PersistentVolumeFilesystem {
		v.DiskBytes = Usable(size, overheadOf(v.Class, config))
		v.AllowSmaller = true
	}
}
