//go:build apiserver

package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (s server) testKinds(t *testing.T) {
	type kind struct {
		Kind       string
		Namespaced bool
		ShortNames []string
	}
	want := map[string]kind{
		"cdiconfigs":             {Kind: "CDIConfig"},
		"cdis":                   {Kind: "CDI", ShortNames: []string{"cdi", "cdis"}},
		"datasources":            {Kind: "DataSource", Namespaced: true, ShortNames: []string{"das"}},
		"datavolumes":            {Kind: "DataVolume", Namespaced: true, ShortNames: []string{"dv", "dvs"}},
		"datavolumes/status":     {Kind: "DataVolume", Namespaced: true},
		"storageprofiles":        {Kind: "StorageProfile"},
		"storageprofiles/status": {Kind: "StorageProfile"},
		"volumeimportsources":    {Kind: "VolumeImportSource", Namespaced: true},
	}
	var served metav1.APIResourceList
	s.get(t, "/apis/cdi.kubevirt.io/v1beta1", "application/json", &served)
	got := map[string]kind{}
	for _, resource := range served.APIResources {
		got[resource.Name] = kind{resource.Kind, resource.Namespaced, resource.ShortNames}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// reported is the DataVolume that KubeVirt makes from the report's virtual machine.
const reported = `
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  namespace: default
  name: debian-disk
spec:
  storage:
    volumeMode: Block
    accessModes: ["ReadWriteOnce"]
    resources:
      requests:
        storage: 20Gi
  source:
    http:
      url: https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-generic-amd64.qcow2
`

func (s server) testReport(t *testing.T) {
	o := object(t, reported)
	want := o.DeepCopy().Object["spec"]
	if err := s.Create(t.Context(), o, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	defer s.remove(t, o)
	if diff := cmp.Diff(want, o.Object["spec"]); diff != "" {
		t.Errorf("the API server changed the spec (-want +got):\n%s", diff)
	}
	dv := &cdiv1.DataVolume{}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(o), dv); err != nil {
		t.Fatal(err)
	}
	dv.Status = cdiv1.DataVolumeStatus{
		ClaimName: "debian-disk", Phase: cdiv1.ImportInProgress, Progress: "41.75%", RestartCount: 2,
		Conditions: []cdiv1.DataVolumeCondition{{
			Type: cdiv1.DataVolumeRunning, Status: "False", Reason: "Error", Message: "404 Not Found",
			LastTransitionTime: metav1.Unix(1, 0).Rfc3339Copy(), LastHeartbeatTime: metav1.Unix(2, 0).Rfc3339Copy(),
		}},
	}
	written := *dv.Status.DeepCopy()
	if err := s.Status().Update(t.Context(), dv); err != nil {
		t.Fatal(err)
	}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(o), dv); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, dv.Status); diff != "" {
		t.Errorf("the API server does not keep the whole status (-want +got):\n%s", diff)
	}
}

func (s server) testDeployed(t *testing.T) {
	var all cdiv1.CDIList
	if err := s.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, one := range all.Items {
		got[one.Name] = string(one.Status.Phase)
	}
	if diff := cmp.Diff(map[string]string{"cdi": "Deployed"}, got); diff != "" {
		t.Errorf("CDI objects and their phases (-want +got):\n%s", diff)
	}
}
