package populate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/pod"
)

// selectedNode is the scheduler's annotation on a claim: the node of the first pod that uses it, in a class that waits for one.
const selectedNode = "volume.kubernetes.io/selected-node"

// placed: what the DataVolume says of its workers' nodes can be read. A worker that is there has its node, or waits for one, already.
func placed(f *flow) *verdict {
	if f.Worker != nil {
		return nil
	}
	_, err := v1alpha1.ParsePlacement(f.DataVolume.Annotations[v1alpha1.PlacementAnnotation])
	if err == nil {
		return nil
	}
	v := &verdict{phase: cdiv1.ImportScheduled, bound: f.boundCondition()}
	v.running = condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrStartingPod, message: fmt.Sprintf(
		"%v; write there what a pod's spec has as nodeSelector, affinity and tolerations, or take the annotation away", err)}
	return v
}

// moved: a worker that no node has taken yet has the placement that the DataVolume says now. Else it makes way for one that has.
func moved(f *flow) *verdict {
	worker := f.Worker
	if worker.Spec.NodeName != "" || worker.Status.Phase != corev1.PodPending ||
		worker.Annotations[v1alpha1.PlacementAnnotation] == f.DataVolume.Annotations[v1alpha1.PlacementAnnotation] {
		return nil
	}
	f.do(action.Delete{Object: worker})
	return f.attempting()
}

// placement are the settings with where a worker may run: where the DataVolume says; if it says nothing, where the CDI object wants workers. Among those nodes
// it prefers the one that the claim's consumer was scheduled to, since another node would have to wait until that one lets go of the volume.
func (f *flow) placement() pod.Settings {
	w := f.World
	own, err := v1alpha1.ParsePlacement(w.DataVolume.Annotations[v1alpha1.PlacementAnnotation])
	if err != nil {
		own = nil // the step placed has told, and started nothing
	}
	settings := w.Settings.PlacedBy(own)
	if node := w.Claim.Annotations[selectedNode]; node != "" {
		settings.Placement.Affinity = preferring(settings.Placement.Affinity, node)
	}
	if w.Clone != nil {
		settings.Placement.Affinity = keptOn(settings.Placement.Affinity, w.Clone.Plan.Placement.NodeAffinity())
	}
	return settings
}

// keptOn is an affinity with what a clone's volumes ask of their pod's node besides.
func keptOn(affinity *corev1.Affinity, more *corev1.NodeAffinity) *corev1.Affinity {
	if more == nil {
		return affinity
	}
	a := affinity.DeepCopy()
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	n := a.NodeAffinity
	n.PreferredDuringSchedulingIgnoredDuringExecution = append(n.PreferredDuringSchedulingIgnoredDuringExecution, more.PreferredDuringSchedulingIgnoredDuringExecution...)
	required := more.RequiredDuringSchedulingIgnoredDuringExecution
	switch {
	case required == nil:
	case n.RequiredDuringSchedulingIgnoredDuringExecution == nil:
		n.RequiredDuringSchedulingIgnoredDuringExecution = required
	default: // one of the terms must hold, and one of the others: each of the one with each of the others
		n.RequiredDuringSchedulingIgnoredDuringExecution = both(n.RequiredDuringSchedulingIgnoredDuringExecution, required)
	}
	return a
}

// both is a selector of the nodes that two select.
func both(a, b *corev1.NodeSelector) *corev1.NodeSelector {
	s := &corev1.NodeSelector{}
	for _, x := range a.NodeSelectorTerms {
		for _, y := range b.NodeSelectorTerms {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(x.MatchExpressions, y.MatchExpressions),
				MatchFields:      slices.Concat(x.MatchFields, y.MatchFields),
			})
		}
	}
	return s
}

// preferring is an affinity that prefers a node, too.
func preferring(affinity *corev1.Affinity, node string) *corev1.Affinity {
	a := affinity.DeepCopy()
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	preferred := &a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	*preferred = append(*preferred, corev1.PreferredSchedulingTerm{
		Weight: 100,
		Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}},
	})
	return a
}
