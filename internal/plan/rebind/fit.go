package rebind

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Templated is the parameter of a class by which the secrets of its volumes depend on the claim that they are made for; empty where none
// does. Such a volume can't go to another claim: the secrets would be looked for under the temporary claim's name or in its namespace.
func Templated(class *storagev1.StorageClass) string {
	if class == nil {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(class.Parameters)) {
		if strings.Contains(key, "secret-name") && strings.Contains(class.Parameters[key], "${pvc.") {
			return key
		}
	}
	return ""
}

// TemplatedSentence says what is in the way, and what to do.
func TemplatedSentence(class, parameter string) string {
	return fmt.Sprintf("StorageClass %s takes its volumes' secrets by the claim's own name or namespace (parameter %s), so a volume of it can't be filled elsewhere and handed over: "+
		"use another class, or a VMDisk or DataVolume, whose claims are filled in place", class, parameter)
}

// Misfit says why the target can't have the volume; empty where it can.
func Misfit(w World) string {
	volume, target := w.Volume.Spec, w.Target.Spec
	asked := target.Resources.Requests[corev1.ResourceStorage]
	has := volume.Capacity[corev1.ResourceStorage]
	switch {
	case target.StorageClassName == nil || *target.StorageClassName != volume.StorageClassName:
		return fmt.Sprintf("the claim's StorageClass is %s, and the volume's is %s", nameOr(target.StorageClassName), volume.StorageClassName)
	case modeOf(target.VolumeMode) != modeOf(volume.VolumeMode):
		return fmt.Sprintf("the claim's volume mode is %s, and the volume's is %s", modeOf(target.VolumeMode), modeOf(volume.VolumeMode))
	case has.Cmp(asked) < 0:
		return fmt.Sprintf("the claim asks %s, and the volume has %s", asked.String(), has.String())
	case target.Selector != nil:
		return "the claim has a selector, and a volume that is made for it has no labels: remove spec.selector"
	}
	for _, m := range target.AccessModes {
		if !slices.Contains(volume.AccessModes, m) {
			return fmt.Sprintf("the claim wants access mode %s, and the volume has %v", m, volume.AccessModes)
		}
	}
	if parameter := Templated(w.Class); parameter != "" {
		return TemplatedSentence(w.Class.Name, parameter)
	}
	if w.Class == nil && w.Temporary != nil {
		if ref := bySecretsOf(w.Volume, w.Temporary.Namespace); ref != "" {
			return fmt.Sprintf("the volume's %s is a secret in the temporary claim's namespace, so it can't be handed over", ref)
		}
	}
	return ""
}

// bySecretsOf is the volume's first reference to a secret in a namespace: all that can be seen of a class that is gone.
func bySecretsOf(volume *corev1.PersistentVolume, namespace string) string {
	csi := volume.Spec.CSI
	if csi == nil {
		return ""
	}
	for _, s := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"nodeStageSecretRef", csi.NodeStageSecretRef}, {"nodePublishSecretRef", csi.NodePublishSecretRef}, {"nodeExpandSecretRef", csi.NodeExpandSecretRef},
		{"controllerPublishSecretRef", csi.ControllerPublishSecretRef}, {"controllerExpandSecretRef", csi.ControllerExpandSecretRef},
	} {
		if s.ref != nil && s.ref.Namespace == namespace {
			return s.name
		}
	}
	return ""
}

func modeOf(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if m == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *m
}

func nameOr(name *string) string {
	if name == nil {
		return "not set"
	}
	return *name
}
