// Package volume decides what claim a DataVolume gets: class, mode, access modes and size. It is pure: it judges values that others have read.
package volume

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// Cluster is what a claim is judged against.
type Cluster struct {
	Classes  []storagev1.StorageClass
	Profiles []cdiv1.StorageProfile
	// Config is the configuration in force; nil stands for its defaults.
	Config *cdiv1.CDIConfig
}

// Volume is a claim, and the disk on it.
type Volume struct {
	Claim corev1.PersistentVolumeClaimSpec
	// Class is nil for a claim of an existing volume that has no class.
	Class *storagev1.StorageClass
	// DiskBytes is the size that the guest sees.
	DiskBytes int64
	// LeastBytes is the size of the class's smallest claim, where the claim was made larger for it; 0: it wasn't.
	LeastBytes int64
	// AllowSmaller: the claim was written by hand, so the disk is what its filesystem has room for.
	AllowSmaller bool
}

// WaitsForConsumer says whether the volume is provisioned only when something mounts it.
func (v Volume) WaitsForConsumer() bool {
	return v.Class != nil && v.Class.VolumeBindingMode != nil && *v.Class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// Invalid says why a DataVolume can't have a claim, and what to set.
type Invalid struct{ Message string }

func (e *Invalid) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &Invalid{Message: fmt.Sprintf(format, args...)}
}

// minimumBytes is the smallest disk that the CDI API allows.
const minimumBytes = MiB

// Of is the volume for a DataVolume's spec. Its error is an *Invalid.
func Of(spec cdiv1.DataVolumeSpec, cluster Cluster) (Volume, error) {
	switch {
	case spec.PVC != nil && spec.Storage != nil:
		return Volume{}, invalid("the DataVolume has both a pvc and a storage section: keep one of them")
	case spec.PVC != nil:
		return fromClaim(*spec.PVC, cluster)
	case spec.Storage != nil:
		return fromStorage(*spec.Storage, cluster)
	default:
		return Volume{}, invalid("the DataVolume has neither a pvc nor a storage section: add storage with resources.requests.storage")
	}
}

// fromClaim takes a hand-written claim as it is. Its filesystem's overhead comes out of the disk.
func fromClaim(pvc corev1.PersistentVolumeClaimSpec, cluster Cluster) (Volume, error) {
	if len(pvc.AccessModes) == 0 {
		return Volume{}, invalid("the DataVolume's pvc section has no accessModes: set one, such as ReadWriteOnce")
	}
	size, err := requested(pvc.Resources)
	if err != nil {
		return Volume{}, err
	}
	claim := *pvc.DeepCopy()
	class, err := classNamed(claim.StorageClassName, cluster.Classes, ClusterDefault)
	if err != nil {
		return Volume{}, err
	}
	v := Volume{Claim: claim, Class: class}
	if class != nil {
		v.Claim.StorageClassName = &class.Name
	}
	v.fitInto(size, cluster.Config)
	return v, nil
}

// fromStorage completes a storage section from the class's profile, and adds the filesystem's overhead, so that the disk is
// exactly as large as was asked.
func fromStorage(storage cdiv1.StorageSpec, cluster Cluster) (Volume, error) {
	size, err := requested(storage.Resources)
	if err != nil {
		return Volume{}, err
	}
	class, err := classNamed(storage.StorageClassName, cluster.Classes, VirtDefault)
	if err != nil {
		return Volume{}, err
	}
	if class == nil && storage.StorageClassName == nil && len(storage.AccessModes) == 0 {
		return Volume{}, invalid("no StorageClass is named and none is the cluster's default: set storageClassName, or mark a class as default with the annotation storageclass.kubernetes.io/is-default-class=true")
	}
	modes, volumeMode, err := properties(storage, class, cluster.Profiles)
	if err != nil {
		return Volume{}, err
	}
	claimBytes := size
	if volumeMode == corev1.PersistentVolumeFilesystem {
		claimBytes = Inflated(size, overheadOf(class, cluster.Config))
	}
	var raised int64
	if class != nil {
		if least := leastOf(class.Name, cluster.Profiles); least > claimBytes {
			claimBytes, raised = least, least
		}
	}
	resources := *storage.Resources.DeepCopy()
	if claimBytes != size {
		resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(claimBytes, resource.BinarySI)
	}
	v := Volume{
		Class:      class,
		DiskBytes:  roundUp(size, sectorBytes),
		LeastBytes: raised,
		Claim: corev1.PersistentVolumeClaimSpec{
			AccessModes:      modes,
			VolumeMode:       &volumeMode,
			Resources:        resources,
			Selector:         storage.Selector,
			VolumeName:       storage.VolumeName,
			StorageClassName: storage.StorageClassName,
		},
	}
	if class != nil {
		v.Claim.StorageClassName = &class.Name
	}
	return v, nil
}

// properties chooses access modes and volume mode: what the section says, completed from the first set of the class's profile that agrees with it.
func properties(storage cdiv1.StorageSpec, class *storagev1.StorageClass, profiles []cdiv1.StorageProfile) ([]corev1.PersistentVolumeAccessMode, corev1.PersistentVolumeMode, error) {
	wanted := storage.VolumeMode
	if wanted != nil && *wanted == cdiv1.PersistentVolumeFromStorageProfile {
		wanted = nil
	}
	if len(storage.AccessModes) > 0 && (wanted != nil || class == nil) {
		return storage.AccessModes, Mode(wanted), nil
	}
	if class == nil {
		return nil, "", invalid("the DataVolume names no access mode, and without a StorageClass there is no profile to take one from: set accessModes")
	}
	for _, set := range profileOf(class.Name, profiles).Status.ClaimPropertySets {
		if wanted != nil && Mode(set.VolumeMode) != *wanted {
			continue
		}
		if len(storage.AccessModes) > 0 {
			if !containsAll(set.AccessModes, storage.AccessModes) {
				continue
			}
			return storage.AccessModes, Mode(set.VolumeMode), nil
		}
		if len(set.AccessModes) > 0 {
			return set.AccessModes, Mode(set.VolumeMode), nil
		}
	}
	if len(storage.AccessModes) > 0 {
		return storage.AccessModes, Mode(wanted), nil
	}
	return nil, "", invalid("StorageProfile %s has no access mode%s: set accessModes in the DataVolume, or ask the administrator to set claimPropertySets in that StorageProfile's spec", class.Name, forMode(wanted))
}

func forMode(wanted *corev1.PersistentVolumeMode) string {
	if wanted == nil {
		return ""
	}
	return fmt.Sprintf(" for volume mode %s", *wanted)
}

// profileOf is a class's profile; an empty one until its controller has made it.
func profileOf(class string, profiles []cdiv1.StorageProfile) cdiv1.StorageProfile {
	i := slices.IndexFunc(profiles, func(p cdiv1.StorageProfile) bool { return p.Name == class })
	if i < 0 {
		return cdiv1.StorageProfile{}
	}
	return profiles[i]
}

// leastOf is the size of the smallest claim that a class can serve, as its profile says; 0 where that says none, or nothing that can be read.
func leastOf(class string, profiles []cdiv1.StorageProfile) int64 {
	q, err := resource.ParseQuantity(profileOf(class, profiles).Annotations[cdi.MinimumClaimSize])
	if err != nil {
		return 0
	}
	return q.Value()
}

func containsAll(have, want []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(want, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(have, m) })
}

// Mode is a volume mode as it counts: that of a claim which says none is Filesystem.
func Mode(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func requested(r corev1.VolumeResourceRequirements) (int64, error) {
	q, ok := r.Requests[corev1.ResourceStorage]
	switch {
	case !ok:
		return 0, invalid("the DataVolume says no size: set resources.requests.storage")
	case q.Value() < minimumBytes:
		return 0, invalid("a disk of %s is too small: resources.requests.storage must be at least 1Mi", q.String())
	}
	return q.Value(), nil
}
