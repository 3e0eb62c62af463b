package pod

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

// nodeSelector is the installation's, unless the DataVolume names a node.
func nodeSelector(r Request) map[string]string {
	if r.DataVolume.Annotations[v1alpha1.NodeAnnotation] != "" {
		return nil
	}
	return r.Settings.Placement.NodeSelector
}

// affinity is the installation's, or the node that the DataVolume names: then a volume is wanted there, and nothing else counts.
func affinity(r Request) *corev1.Affinity {
	node := r.DataVolume.Annotations[v1alpha1.NodeAnnotation]
	if node == "" {
		return r.Settings.Placement.Affinity
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
}

// tolerations are the installation's. A node that the DataVolume names was chosen for a pod whose tolerations nobody here knows.
func tolerations(r Request) []corev1.Toleration {
	all := r.Settings.Placement.Tolerations
	if r.DataVolume.Annotations[v1alpha1.NodeAnnotation] == "" {
		return all
	}
	return append(slices.Clone(all), corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
}

// EgressOf is where the DataVolume lets its workers connect to. An annotation that can't be read lets them nowhere: the worker says so.
func EgressOf(dv *cdiv1.DataVolume) *job.Egress {
	text, ok := dv.Annotations[v1alpha1.EgressAnnotation]
	if !ok {
		return nil
	}
	var e job.Egress
	if json.Unmarshal([]byte(text), &e) != nil {
		return &job.Egress{Deny: []string{text}}
	}
	return &e
}
