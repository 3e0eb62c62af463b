package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"vmdisk.io/vmdisk/config"
)

func TestTheInstallationHoldsWhatItShouldInTheOrderOfApplying(t *testing.T) {
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := config.Manifests("registry.example/vmdisk:1")
	if err != nil {
		t.Fatal(err)
	}
	populator, err := config.Populator("registry.example/vmdisk:1")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		objects []*unstructured.Unstructured
		want    []string
	}{
		"the kinds: VMDisk, the five that KubeVirt watches, and what a populator reads": {
			objects: crds,
			want: []string{
				"CustomResourceDefinition cdiconfigs.cdi.kubevirt.io",
				"CustomResourceDefinition cdis.cdi.kubevirt.io",
				"CustomResourceDefinition datasources.cdi.kubevirt.io",
				"CustomResourceDefinition datavolumes.cdi.kubevirt.io",
				"CustomResourceDefinition storageprofiles.cdi.kubevirt.io",
				"CustomResourceDefinition volumeimportsources.cdi.kubevirt.io",
				"CustomResourceDefinition vmdisks.vmdisk.io",
			},
		},
		"vmdisk's own objects, the namespace first, exactly one CDI object and its CDIConfig": {
			objects: manifests,
			want: []string{
				"Namespace vmdisk",
				"ServiceAccount vmdisk/vmdisk-controller",
				"ClusterRole vmdisk-controller",
				"ClusterRoleBinding vmdisk-controller",
				"Role vmdisk/vmdisk-controller",
				"RoleBinding vmdisk/vmdisk-controller",
				"ClusterRole vmdisk.io:admin",
				"ClusterRole vmdisk.io:edit",
				"ClusterRole vmdisk.io:view",
				"ClusterRole cdi.kubevirt.io:admin",
				"ClusterRole cdi.kubevirt.io:edit",
				"ClusterRole cdi.kubevirt.io:view",
				"ClusterRole cdi.kubevirt.io:clone-sourcer",
				"ClusterRole cdi.kubevirt.io:config-reader",
				"ClusterRoleBinding cdi.kubevirt.io:config-reader",
				"Deployment vmdisk/vmdisk-controller",
				"Service vmdisk/vmdisk-controller-metrics",
				"Service vmdisk/vmdisk-webhooks",
				"CDI cdi",
				"CDIConfig config",
				"ValidatingWebhookConfiguration vmdisk",
			},
		},
		"the populator's, which go on top": {
			objects: populator,
			want: []string{
				"Namespace vmdisk-populator",
				"ResourceQuota vmdisk-populator/populators",
				"ServiceAccount vmdisk-populator/vmdisk-worker",
				"NetworkPolicy vmdisk-populator/workers",
				"ServiceAccount vmdisk/vmdisk-populator",
				"ClusterRole vmdisk-populator",
				"ClusterRoleBinding vmdisk-populator",
				"Role vmdisk-populator/vmdisk-populator",
				"RoleBinding vmdisk-populator/vmdisk-populator",
				"Role vmdisk/vmdisk-populator",
				"RoleBinding vmdisk/vmdisk-populator",
				"Deployment vmdisk/vmdisk-populator",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, names(test.objects)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheControllerAndItsWorkersRunTheImageThatWasAskedFor(t *testing.T) {
	manifests, err := config.Manifests("registry.example/vmdisk:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range manifests {
		if object.GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatalf("the deployment has containers %v (%v), want one", containers, err)
		}
		container := containers[0].(map[string]any)
		if got := container["image"]; got != "registry.example/vmdisk:1" {
			t.Errorf("the controller runs %v", got)
		}
		want := []any{"controller", "--worker-image=registry.example/vmdisk:1"}
		if diff := cmp.Diff(want, container["args"]); diff != "" {
			t.Errorf("arguments (-want +got):\n%s", diff)
		}
	}
}

// Where another group serves the plural, too, people have the short name, which is theirs to type and ours to keep.
func TestAVMDiskIsCalledSo(t *testing.T) {
	crds, err := config.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(crds, func(o *unstructured.Unstructured) bool { return o.GetName() == "vmdisks.vmdisk.io" })
	got, _, err := unstructured.NestedMap(crds[i].Object, "spec", "names")
	if err != nil {
		t.Fatal(err)
	}
	delete(got, "categories")
	want := map[string]any{"kind": "VMDisk", "listKind": "VMDiskList", "plural": "vmdisks", "singular": "vmdisk", "shortNames": []any{"vmd"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// names are the objects as "Kind namespace/name".
func names(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.GetKind()+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	return all
}
