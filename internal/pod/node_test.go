package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	sdkapi "kubevirt.io/controller-lifecycle-operator-sdk/api"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

// TestAWorkerGoesToTheNodeThatIsNamed, also where the installation wants workers elsewhere: the volume is wanted there.
func TestAWorkerGoesToTheNodeThatIsNamed(t *testing.T) {
	type placed struct {
		Selector    map[string]string
		Names       []string
		Tolerations []corev1.Toleration
	}
	infra := corev1.Toleration{Key: "infra", Operator: corev1.TolerationOpExists}
	for name, test := range map[string]struct {
		annotations map[string]string
		want        placed
	}{
		"none is": {nil, placed{Selector: map[string]string{"infra": ""}, Tolerations: []corev1.Toleration{infra}}},
		"node-b is": {map[string]string{v1alpha1.NodeAnnotation: "node-b"}, placed{
			Names: []string{"node-b"}, Tolerations: []corev1.Toleration{infra, {Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}}},
	} {
		t.Run(name, func(t *testing.T) {
			worker := Worker(Request{
				DataVolume: &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}},
				Claim:      &corev1.PersistentVolumeClaim{},
				Settings:   Settings{Placement: sdkapi.NodePlacement{NodeSelector: map[string]string{"infra": ""}, Tolerations: []corev1.Toleration{infra}}},
			})
			got := placed{Selector: worker.Spec.NodeSelector, Tolerations: worker.Spec.Tolerations}
			if a := worker.Spec.Affinity; a != nil {
				got.Names = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEgressIsWhatTheDataVolumeSaysAndNothingIfThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        *job.Egress
	}{
		"nothing":              {nil, nil},
		"a list":               {map[string]string{v1alpha1.EgressAnnotation: `{"deny":["10.0.0.0/8"]}`}, &job.Egress{Deny: []string{"10.0.0.0/8"}}},
		"what can't be read":   {map[string]string{v1alpha1.EgressAnnotation: "public"}, &job.Egress{Deny: []string{"public"}}},
		"an empty annotation ": {map[string]string{v1alpha1.EgressAnnotation: ""}, &job.Egress{Deny: []string{""}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := EgressOf(&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if _, _, err := (job.Egress{}).Parse(); err != nil {
				t.Error(err)
			}
			if got != nil && name != "a list" {
				if _, _, err := got.Parse(); err == nil {
					t.Error("the worker would take it")
				}
			}
		})
	}
}
