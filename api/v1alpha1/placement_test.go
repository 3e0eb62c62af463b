package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestAPlacementSurvivesTheAnnotation(t *testing.T) {
	for name, p := range map[string]*Placement{
		"none":        nil,
		"labels":      {NodeSelector: map[string]string{"zone": "a"}},
		"tolerations": {Tolerations: []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}}},
		"affinity": {Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{"node-b"}}},
			}}},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePlacement(p.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if text := (&Placement{}).Encode(); text != "" {
		t.Errorf("a placement that says nothing is %q, want nothing", text)
	}
}

func TestAPlacementThatCantBeReadIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":                 "zone=a",
		"another type":            `{"nodeSelector": ["zone"]}`,
		"a field of a later time": `{"spread": true}`,
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := ParsePlacement(text); err == nil {
				t.Errorf("%s is read as %+v", text, p)
			}
		})
	}
}
