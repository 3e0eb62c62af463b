package populator

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
)

// claimOf is the temporary claim of a target: what the target asks for, but for where its bytes come from.
func claimOf(target *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaimSpec {
	s := target.Spec.DeepCopy()
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: s.AccessModes, Resources: s.Resources, StorageClassName: s.StorageClassName, VolumeMode: s.VolumeMode,
		VolumeAttributesClassName: s.VolumeAttributesClassName,
	}
}

// specOf is the DataVolume's spec for a source.
func specOf(source *cdiv1.VolumeImportSource) cdiv1.DataVolumeSpec {
	s := source.Spec.DeepCopy()
	spec := cdiv1.DataVolumeSpec{ContentType: s.ContentType, Preallocation: s.Preallocation}
	if from := s.Source; from != nil {
		spec.Source = &cdiv1.DataVolumeSource{
			HTTP: from.HTTP, S3: from.S3, Registry: from.Registry, GCS: from.GCS, Blank: from.Blank, Imageio: from.Imageio, VDDK: from.VDDK,
		}
	}
	return spec
}

// newDataVolume fills a temporary claim for the target, with the populator's copies of the target's inputs.
func newDataVolume(w World) *cdiv1.DataVolume {
	egress, err := json.Marshal(w.Settings.Egress)
	if err != nil {
		panic(err) // strings always encode
	}
	spec := specOf(w.Source)
	claim := claimOf(w.Target)
	spec.PVC = &claim
	spec.ServiceAccountName = w.Settings.ServiceAccount
	if http := spec.Source.HTTP; http != nil {
		for i, name := range []*string{&http.SecretRef, &http.CertConfigMap} {
			if *name != "" {
				*name = copyName(w, []bool{true, false}[i], *name)
			}
		}
		for i, name := range http.SecretExtraHeaders {
			http.SecretExtraHeaders[i] = copyName(w, true, name)
		}
	}
	meta := w.meta(Name(w.UID))
	meta.Annotations[cdi.BindImmediate] = "" // the target's consumer has been waited for
	meta.Annotations[v1alpha1.EgressAnnotation] = string(egress)
	if node := w.Target.Annotations[cdi.SelectedNode]; node != "" && !w.immediate() {
		meta.Annotations[v1alpha1.PlacementAnnotation] = on(node).Encode()
	}
	return &cdiv1.DataVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: cdiv1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: meta,
		Spec:       spec,
	}
}

// on is the placement on one node. That node was chosen for the target's consumer, whose tolerations nobody here knows.
func on(node string) *v1alpha1.Placement {
	named := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	return &v1alpha1.Placement{
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{named}}},
		}}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
	}
}

// newCopy is the populator's copy of an input, for this one transfer. It goes with the DataVolume at the latest.
func newCopy(w World, in Input) action.Object {
	meta := w.meta(copyName(w, in.Secret, in.Name))
	meta.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(w.DataVolume, cdiv1.SchemeGroupVersion.WithKind("DataVolume"))}
	if in.Secret {
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta, Data: in.Original.(*corev1.Secret).Data}
	}
	from := in.Original.(*corev1.ConfigMap)
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, Data: from.Data, BinaryData: from.BinaryData}
}

// copyName is the name of the copy of an input: the first in the source that is the same object.
func copyName(w World, secret bool, name string) string {
	for i, in := range w.Inputs {
		if in.Secret == secret && in.Name == name {
			return CopyName(w, i)
		}
	}
	return name // not reached: Inputs are the source's own
}

// CopyName is the name of the copy of the nth input.
func CopyName(w World, n int) string { return fmt.Sprintf("%s-%d", Name(w.UID), n) }

// meta is what all of the populator's objects have.
func (w World) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:   w.Settings.Namespace,
		Name:        name,
		Labels:      map[string]string{v1alpha1.PopulatesLabel: string(w.UID)},
		Annotations: map[string]string{v1alpha1.TargetAnnotation: w.Target.Namespace + "/" + w.Target.Name},
	}
}
