//go:build apiserver

package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/lab/apiserver"
	"vmdisk.io/vmdisk/lab/cluster"
)

// helm runs Helm on the chart, without any configuration of whoever runs the test.
func helm(t *testing.T, kubeconfig string, args ...string) (out []byte, err error) {
	t.Helper()
	program := filepath.Join(cluster.BinDir(), "helm")
	if _, err := os.Stat(program); err != nil {
		if err := cluster.Build(t.Context(), cluster.Options{Out: os.Stderr, Source: root}); err != nil {
			t.Fatalf("build helm: %v", err)
		}
	}
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err = cmd.Output()
	if err != nil {
		return append(out, stderr.Bytes()...), err
	}
	return out, nil
}

// render is what the chart gives for a namespace and values, by kind and name.
func render(t *testing.T, namespace string, values ...string) map[string]map[string]any {
	t.Helper()
	args := []string{"template", "vmdisk", chart, "-n", namespace, "--kube-version", "1.36.0"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	out, err := helm(t, "", args...)
	if err != nil {
		t.Fatalf("helm %q: %v\n%s", args, err, out)
	}
	objects := map[string]map[string]any{}
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := d.Decode(&o.Object); err != nil {
			return objects // its end: Helm has read what it prints
		}
		if len(o.Object) > 0 {
			objects[o.GetKind()+" "+o.GetName()] = o.Object
		}
	}
}

// TestTheChartIsConfig: with its defaults, in namespace vmdisk, the chart installs exactly what config/ does, but for the namespace itself.
func TestTheChartIsConfig(t *testing.T) {
	manifests, err := config.Manifests(config.DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]any{}
	for _, o := range manifests {
		if o.GetKind() != "Namespace" {
			want[o.GetKind()+" "+o.GetName()] = o.Object
		}
	}
	if diff := cmp.Diff(want, render(t, "vmdisk")); diff != "" {
		t.Errorf("(-config +chart):\n%s", diff)
	}
}

func TestTheChartIsLinted(t *testing.T) {
	for name, set := range map[string]string{"as it is": "", "with everything": "alerts.enabled=true,engine=cdi,metrics.enabled=false,replicas=2,placement.nodeSelector.a=b"} {
		t.Run(name, func(t *testing.T) {
			if out, err := helm(t, "", "lint", "--strict", chart, "--set", set); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	if out, err := helm(t, "", "lint", chart, "--set", "engine=both"); err == nil {
		t.Errorf("an engine that there isn't passes:\n%s", out)
	}
}

// TestTheCloneStrategyOverride: an empty one is left out, since the field has no empty value.
func TestTheCloneStrategyOverride(t *testing.T) {
	for value, want := range map[string]any{"": nil, "copy": "copy"} {
		spec := render(t, "vmdisk", "cdi.cloneStrategyOverride="+value)["CDI cdi"]["spec"].(map[string]any)
		if got := spec["cloneStrategyOverride"]; got != want {
			t.Errorf("with %q the CDI resource has %v", value, got)
		}
	}
	if out, err := helm(t, "", "lint", chart, "--set", "cdi.cloneStrategyOverride=best"); err == nil {
		t.Errorf("a strategy that there isn't passes:\n%s", out)
	}
}

// TestValues: what each value changes.
func TestValues(t *testing.T) {
	arguments := func(objects map[string]map[string]any) []string {
		containers, _, err := unstructured.NestedSlice(objects["Deployment vmdisk-controller"], "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatalf("%v: %v", containers, err)
		}
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		if err != nil {
			t.Fatal(err)
		}
		return args
	}
	got := render(t, "cozy-vmdisk", "image=r.example/vmdisk:v1", "imagePullPolicy=Always", "engine=cdi", "crossClassClone=refuse", "defaultStorageClass=replicated",
		"images.namespace=cozy-public", "images.prefix=vm-default-images-", "scratchSize=20Gi", "metrics.enabled=false", "extraFlags={--leader-election=false}", "alerts.enabled=true", "alerts.labels.team=a")
	want := []string{"controller", "--worker-image=r.example/vmdisk:v1", "--namespace=cozy-vmdisk", "--worker-image-pull-policy=Always", "--engine=cdi", "--cross-class-clone=refuse",
		"--default-storage-class=replicated", "--image-namespace=cozy-public", "--image-prefix=vm-default-images-", "--scratch-size=20Gi", "--metrics-address=0", "--leader-election=false"}
	if diff := cmp.Diff(want, arguments(got)); diff != "" {
		t.Errorf("the controller's arguments (-want +got):\n%s", diff)
	}
	for _, gone := range []string{"CDI cdi", "CDIConfig config", "ClusterRole cdi.kubevirt.io:edit", "Service vmdisk-controller-metrics"} {
		if got[gone] != nil {
			t.Errorf("%s is installed with engine=cdi and without metrics", gone)
		}
	}
	for name, object := range got {
		if o := (unstructured.Unstructured{Object: object}); o.GetNamespace() != "" && o.GetNamespace() != "cozy-vmdisk" {
			t.Errorf("%s is in namespace %s", name, o.GetNamespace())
		}
	}
	alerts, err := os.ReadFile(filepath.Join(root, "config/alerts/alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rule := map[string]any{}
	if err := yaml.Unmarshal(alerts, &rule); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rule["spec"], got["PrometheusRule vmdisk"]["spec"]); diff != "" {
		t.Errorf("the alerts (-config +chart):\n%s", diff)
	}
}

// TestTheChartInstallsOnAnEmptyCluster: CRDs before what needs them, in a namespace of another name, twice.
func TestTheChartInstallsOnAnEmptyCluster(t *testing.T) {
	access, kubeconfig := apiserver.StartEmpty(t)
	c, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cozy-vmdisk"}}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"replicas=1", "replicas=2"} {
		if out, err := helm(t, kubeconfig, "upgrade", "--install", "vmdisk", chart, "-n", "cozy-vmdisk", "--set", set); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	d, err := c.AppsV1().Deployments("cozy-vmdisk").Get(t.Context(), "vmdisk-controller", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 2 {
		t.Errorf("%+v: %v", d, err)
	}
	if out, err := helm(t, kubeconfig, "uninstall", "vmdisk", "-n", "cozy-vmdisk"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Without its CRDs a cluster would lose every disk.
	crds, err := c.Discovery().ServerResourcesForGroupVersion("cdi.kubevirt.io/v1beta1")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range crds.APIResources {
		if !strings.Contains(r.Name, "/") {
			kinds = append(kinds, r.Kind)
		}
	}
	if diff := cmp.Diff([]string{"CDI", "CDIConfig", "DataSource", "DataVolume", "StorageProfile", "VolumeImportSource"}, slices.Sorted(slices.Values(kinds))); diff != "" {
		t.Error(diff)
	}
}
