package pod

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

func TestEgressIsWhatTheDataVolumeSaysAndNothingIfThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        *job.Egress
		readable    bool // by the worker
	}{
		"nothing":             {nil, nil, true},
		"a list":              {map[string]string{v1alpha1.EgressAnnotation: `{"deny":["10.0.0.0/8"]}`}, &job.Egress{Deny: []string{"10.0.0.0/8"}}, true},
		"what can't be read":  {map[string]string{v1alpha1.EgressAnnotation: "public"}, &job.Egress{Deny: []string{"public"}}, false},
		"an empty annotation": {map[string]string{v1alpha1.EgressAnnotation: ""}, &job.Egress{Deny: []string{""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := EgressOf(&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if got == nil {
				return
			}
			if _, _, err := got.Parse(); (err == nil) != test.readable {
				t.Errorf("the worker says %v", err)
			}
		})
	}
}
