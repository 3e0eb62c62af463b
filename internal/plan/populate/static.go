package populate

import (
	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// StaticVolume is the volume that is reserved for a DataVolume's claim: by its name, and without the UID of a claim that it belongs to, or
// once belonged to. nil: there is none.
func StaticVolume(dv *cdiv1.DataVolume, volumes []corev1.PersistentVolume) *corev1.PersistentVolume {
	for i := range volumes {
		ref := volumes[i].Spec.ClaimRef
		if ref != nil && ref.Namespace == dv.Namespace && ref.Name == dv.Name && ref.UID == "" {
			return &volumes[i]
		}
	}
	return nil
}

// claim is the claim to make. One for a volume that has the bytes is marked as filled from its first moment on; the volume decides what can be
// said of it.
func (f *flow) claim() *corev1.PersistentVolumeClaim {
	if f.Static == nil {
		return newClaim(f.World, f.volume)
	}
	v, has := f.volume, f.Static.Spec
	v.Claim.VolumeName = f.Static.Name
	v.Claim.AccessModes, v.Claim.VolumeMode, v.Claim.StorageClassName = has.AccessModes, has.VolumeMode, &has.StorageClassName
	claim := newClaim(f.World, v)
	claim.Annotations[cdi.PopulatedFor] = f.DataVolume.Name
	return claim
}

// pinned: a claim that was made for one volume is bound to it. Kubernetes binds it at once, whatever its class waits for, or never.
func pinned(f *flow) *verdict {
	_, static := f.DataVolume.Annotations[cdi.CheckStaticVolume]
	if !static || f.Claim.Spec.VolumeName == "" || f.Claim.Status.Phase == corev1.ClaimBound {
		return nil
	}
	v := &verdict{phase: cdiv1.Pending, bound: f.boundCondition()}
	if v.bound.reason == cdi.ReasonPending {
		v.bound.message = "PVC " + f.Claim.Name + " Pending: it waits for PersistentVolume " + f.Claim.Spec.VolumeName +
			", which must be as large as the claim asks for and name the claim in its claimRef"
	}
	return v
}
