package populate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	sdkapi "kubevirt.io/controller-lifecycle-operator-sdk/api"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
)

// placedSim is a simulation of a disk with a placement, in which the CDI object wants workers on nodes of its own.
func placedSim(placement string) *sim {
	m := newSim(dataVolume(func(dv *cdiv1.DataVolume) {
		if placement != "" {
			dv.Annotations[v1alpha1.PlacementAnnotation] = placement
		}
	}), immediateClass)
	m.world.Settings.Placement = sdkapi.NodePlacement{
		NodeSelector: map[string]string{"storage": "yes"},
		Tolerations:  []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}},
	}
	return m
}

func TestWhereAWorkerMayRun(t *testing.T) {
	type place struct {
		Selector    map[string]string
		Tolerations []corev1.Toleration
		Affinity    *corev1.Affinity
	}
	cluster := place{Selector: map[string]string{"storage": "yes"}, Tolerations: []corev1.Toleration{{Key: "storage", Operator: corev1.TolerationOpExists}}}
	onB := []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"node-b"}}}}}}
	zone := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "Exists"}}}}}
	const inZone = `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}}}`
	for name, c := range map[string]struct {
		placement, selected string
		want                place
	}{
		"nobody says anything but the CDI object": {"", "", cluster},
		"the disk says that it says nothing":      {"{}", "", cluster},
		"the disk's word is the whole of it":      {`{"nodeSelector":{"zone":"a"}}`, "", place{Selector: map[string]string{"zone": "a"}}},
		"its consumer's node is preferred": {"", "node-b", place{cluster.Selector, cluster.Tolerations,
			&corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: onB}}}},
		"its consumer's node is preferred among the disk's": {inZone, "node-b", place{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: zone, PreferredDuringSchedulingIgnoredDuringExecution: onB}}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := placedSim(c.placement)
			m.settle()
			if c.selected != "" {
				m.world.Claim.Annotations[selectedNode] = c.selected
			}
			m.bind()
			m.settle()
			got := m.world.Worker.Spec
			if diff := cmp.Diff(c.want, place{got.NodeSelector, got.Tolerations, got.Affinity}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAPlacementThatCantBeReadStartsNothing(t *testing.T) {
	m := placedSim("zone=a")
	m.settle()
	m.bind()
	m.settle()
	if m.world.Worker != nil {
		t.Error("a worker was made, who knows where")
	}
	c, _ := find(m.world.DataVolume.Status.Conditions, cdiv1.DataVolumeRunning)
	const want = "read the annotation vmdisk.io/placement: invalid character 'z' looking for beginning of value; write there what a pod's spec has as nodeSelector, affinity and tolerations, or take the annotation away"
	if c.Reason != cdi.ReasonErrStartingPod || c.Message != want {
		t.Errorf("it says %s: %s", c.Reason, c.Message)
	}
}

// TestAWorkerThatNoNodeTakesFollowsThePlacement: what was wrong in the placement can be mended; what runs already stays.
func TestAWorkerThatNoNodeTakesFollowsThePlacement(t *testing.T) {
	for name, c := range map[string]struct {
		node    string
		follows bool
	}{
		"no node has taken it": {"", true},
		"a node has taken it":  {"node-a", false},
	} {
		t.Run(name, func(t *testing.T) {
			m := placedSim(`{"nodeSelector":{"zone":"a"}}`)
			m.settle()
			m.bind()
			m.settle()
			m.world.Worker.Spec.NodeName = c.node
			m.settle()
			m.world.DataVolume = m.world.DataVolume.DeepCopy()
			m.world.DataVolume.Annotations[v1alpha1.PlacementAnnotation] = `{"nodeSelector":{"zone":"b"}}`
			m.settle()
			if going := m.world.Worker.DeletionTimestamp != nil; going != c.follows {
				t.Fatalf("the worker is being deleted: %v, want %v", going, c.follows)
			}
			m.reap()
			m.settle()
			if got := m.world.Worker.Spec.NodeSelector["zone"]; c.follows && got != "b" {
				t.Errorf("the next worker is for zone %q", got)
			}
		})
	}
}
