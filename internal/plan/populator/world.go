// Package populator decides how a bare claim is filled whose dataSourceRef names a VolumeImportSource. The filling itself is a DataVolume's,
// in the operator's own namespace; its volume is then handed to the claim (package rebind). So the tenant pays for one disk, and the
// operator's quota limits how many are filled at a time. The rest stand in line (line.go).
package populator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

// Settings are the installation's.
type Settings struct {
	// Namespace is the populator's own.
	Namespace string
	// ServiceAccount is the workers', without any right.
	ServiceAccount string
	// Egress is where the workers may connect to.
	Egress job.Egress
}

// World is what was seen of one target. What doesn't exist is nil.
type World struct {
	// UID is the target's.
	UID types.UID
	// Target is nil once it is gone, or another one has its name.
	Target *corev1.PersistentVolumeClaim
	// Source is the VolumeImportSource that it names, in its own namespace.
	Source *cdiv1.VolumeImportSource
	// Class is the target's.
	Class *storagev1.StorageClass
	// Inputs are the Secrets and ConfigMaps that the source names, in their order.
	Inputs []Input
	// DataVolume fills the temporary claim, and has its name.
	DataVolume *cdiv1.DataVolume
	Temporary  *corev1.PersistentVolumeClaim
	// Volume is the one that is marked for the target, or else the temporary claim's.
	Volume *corev1.PersistentVolume
	// Line is who else wants to be filled. It is read only while the target has no DataVolume.
	Line Line
	// Settings are the installation's.
	Settings Settings
	// Refusal is set when an action of a decision was refused: then this is that decision's second look.
	Refusal *action.Refusal
}

// Input is a Secret or ConfigMap that a transfer needs.
type Input struct {
	Secret bool
	Name   string
	// Original is the target's namespace's; it is read only while it is to be copied. Copy is the populator's.
	Original, Copy action.Object
}

// Wants says whether a claim is one to be filled by the populator.
func Wants(claim *corev1.PersistentVolumeClaim) bool {
	ref := claim.Spec.DataSourceRef
	return ref != nil && ref.Kind == cdi.ImportSourceKind && ref.APIGroup != nil && *ref.APIGroup == cdi.Group
}

// Name is the name of the DataVolume that fills a target, and of its temporary claim.
func Name(target types.UID) string { return "populate-" + string(target) }

// InputsOf are what a source names, without the objects.
func InputsOf(source *cdiv1.VolumeImportSource) []Input {
	if source == nil || source.Spec.Source == nil || source.Spec.Source.HTTP == nil {
		return nil
	}
	http := source.Spec.Source.HTTP
	var all []Input
	add := func(secret bool, name string) {
		if name != "" && !slices.ContainsFunc(all, func(in Input) bool { return in.Secret == secret && in.Name == name }) {
			all = append(all, Input{Secret: secret, Name: name})
		}
	}
	add(true, http.SecretRef)
	add(false, http.CertConfigMap)
	for _, name := range http.SecretExtraHeaders {
		add(true, name)
	}
	return all
}

// move is the handing over of the filled volume.
func (w World) move() rebind.World {
	m := rebind.World{Target: w.Target, Temporary: w.Temporary, Volume: w.Volume, Class: w.Class}
	if w.DataVolume != nil {
		m.Keeper = w.DataVolume
	}
	return m
}

// bound says whether the target has a volume, or names one.
func (w World) bound() bool { return w.Target.Spec.VolumeName != "" }

// begun says whether the filled volume is on its way.
func (w World) begun() bool { return rebind.Begun(w.Volume, w.UID) }

// immediate says whether a target is filled without waiting for its consumer.
func (w World) immediate() bool {
	_, asked := w.Target.Annotations[cdi.BindImmediate]
	return asked || w.Class.VolumeBindingMode == nil || *w.Class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer
}

// population is the reason of the target's last sentence.
func population(target *corev1.PersistentVolumeClaim) string {
	return reasonOf(target.Annotations[v1alpha1.PopulationAnnotation])
}
