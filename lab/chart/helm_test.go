//go:build apiserver

package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// render is what the chart gives for a namespace and values, by what keyOf says.
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
			objects[keyOf(o)] = o.Object
		}
	}
}

// keyOf is an object's kind, namespace and name.
func keyOf(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// TestTheChartIsConfig: in namespace vmdisk, the chart installs exactly what config/ does, but for that namespace itself, and the populator
// only for who asks for it.
func TestTheChartIsConfig(t *testing.T) {
	manifests, err := config.Manifests(config.DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	populator, err := config.Populator(config.DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		values []string
		want   []*unstructured.Unstructured
	}{
		"with its defaults":  {nil, manifests},
		"with the populator": {[]string{"populator.enabled=true"}, slices.Concat(manifests, populator)},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]map[string]any{}
			for _, o := range c.want {
				want[keyOf(o)] = o.Object
			}
			delete(want, "Namespace vmdisk")
			if diff := cmp.Diff(want, render(t, "vmdisk", c.values...)); diff != "" {
				t.Errorf("(-config +chart):\n%s", diff)
			}
		})
	}
}

func TestTheChartIsLinted(t *testing.T) {
	for name, set := range map[string]string{
		"as it is":           "",
		"with everything":    "alerts.enabled=true,engine=cdi,metrics.enabled=false,replicas=2,placement.nodeSelector.a=b",
		"with the populator": "populator.enabled=true,populator.egress.allow={10.1.2.3/32},populator.quota.requests\\.storage=1Ti,metrics.enabled=false",
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := helm(t, "", "lint", "--strict", chart, "--set", set); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestWhatMakesNoSenseIsRefused before anything is installed.
func TestWhatMakesNoSenseIsRefused(t *testing.T) {
	for set, says := range map[string]string{
		"engine=both":                                       "/engine",
		"cdi.cloneStrategyOverride=best":                    "/cdi/cloneStrategyOverride",
		"populator.egress.allow={10.1.2.3}":                 "/populator/egress/allow",
		"populator.enabled=true,populator.namespace=vmdisk": "disks need a namespace that holds nothing else",
		"populator.enabled=true,engine=cdi":                 "two populators would spoil each other's work",
	} {
		if out, err := helm(t, "", "template", "vmdisk", chart, "-n", "vmdisk", "--kube-version", "1.36.0", "--set", set); err == nil || !strings.Contains(string(out), says) {
			t.Errorf("with %s, %v:\n%.2000s", set, err, out)
		}
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
}

// arguments are those of a Deployment's one container.
func arguments(t *testing.T, deployment map[string]any) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("%v: %v", containers, err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// TestValues: what each value changes.
func TestValues(t *testing.T) {
	got := render(t, "cozy-vmdisk", "image=r.example/vmdisk:v1", "imagePullPolicy=Always", "engine=cdi", "crossClassClone=refuse", "defaultStorageClass=replicated",
		"images.namespace=cozy-public", "images.prefix=vm-default-images-", "scratchSize=20Gi", "metrics.enabled=false", "extraFlags={--leader-election=false}", "alerts.enabled=true", "alerts.labels.team=a")
	want := []string{"controller", "--worker-image=r.example/vmdisk:v1", "--namespace=cozy-vmdisk", "--worker-image-pull-policy=Always", "--engine=cdi", "--cross-class-clone=refuse",
		"--default-storage-class=replicated", "--image-namespace=cozy-public", "--image-prefix=vm-default-images-", "--scratch-size=20Gi", "--metrics-address=0", "--leader-election=false"}
	if diff := cmp.Diff(want, arguments(t, got["Deployment cozy-vmdisk/vmdisk-controller"])); diff != "" {
		t.Errorf("the controller's arguments (-want +got):\n%s", diff)
	}
	for _, gone := range []string{"CDI cdi", "CDIConfig config", "ClusterRole cdi.kubevirt.io:edit", "Service cozy-vmdisk/vmdisk-controller-metrics"} {
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
	if diff := cmp.Diff(rule["spec"], got["PrometheusRule cozy-vmdisk/vmdisk"]["spec"]); diff != "" {
		t.Errorf("the alerts (-config +chart):\n%s", diff)
	}
}

// TestPopulatorValues: what each of its values changes.
func TestPopulatorValues(t *testing.T) {
	got := render(t, "cozy-vmdisk", "populator.enabled=true", "populator.namespace=cozy-populator", "populator.quota.requests\\.storage=1Ti", "image=r.example/vmdisk:v1",
		"populator.egress.allow={10.1.2.3/32,fd00::7/128}", "populator.egress.to[0].podSelector.matchLabels.app=mirror", "metrics.enabled=false", "populator.extraFlags={--leader-election=false}")
	want := []string{"populator", "--populator-namespace=cozy-populator", "--namespace=cozy-vmdisk", "--allow-egress=10.1.2.3/32,fd00::7/128", "--metrics-address=0", "--leader-election=false"}
	if diff := cmp.Diff(want, arguments(t, got["Deployment cozy-vmdisk/vmdisk-populator"])); diff != "" {
		t.Errorf("the populator's arguments (-want +got):\n%s", diff)
	}
	rules, _, err := unstructured.NestedSlice(got["NetworkPolicy cozy-populator/workers"], "spec", "egress")
	if err != nil || len(rules) != 4 {
		t.Fatalf("the workers have rules %v: %v", rules, err)
	}
	opened := []any{
		map[string]any{"to": []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.1.2.3/32"}}, map[string]any{"ipBlock": map[string]any{"cidr": "fd00::7/128"}}}},
		map[string]any{"to": []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "mirror"}}}}},
	}
	if diff := cmp.Diff(opened, rules[2:]); diff != "" {
		t.Errorf("where the workers may connect to besides (-want +got):\n%s", diff)
	}
	hard, _, err := unstructured.NestedMap(got["ResourceQuota cozy-populator/populators"], "spec", "hard")
	if diff := cmp.Diff(map[string]any{"persistentvolumeclaims": "4", "requests.storage": "1Ti"}, hard); diff != "" || err != nil {
		t.Errorf("the quota (-want +got):\n%s%v", diff, err)
	}
	if got["Namespace cozy-populator"] == nil {
		t.Error("the namespace of the disks isn't made")
	}
	for name, object := range got {
		o := unstructured.Unstructured{Object: object}
		if n := o.GetNamespace(); n != "" && n != "cozy-vmdisk" && n != "cozy-populator" {
			t.Errorf("%s is in another namespace", name)
		}
		subjects, _, _ := unstructured.NestedSlice(object, "subjects")
		for _, s := range subjects {
			if n := s.(map[string]any)["namespace"]; n != nil && n != "cozy-vmdisk" {
				t.Errorf("%s gives rights to a ServiceAccount of namespace %v", name, n)
			}
		}
	}
}

// TestTheChartInstallsOnAnEmptyCluster: CRDs before what needs them, in a namespace of another name, twice; then with the populator, and
// without it again.
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
	for _, enabled := range []bool{true, false} {
		if out, err := helm(t, kubeconfig, "upgrade", "vmdisk", chart, "-n", "cozy-vmdisk", "--set", "populator.enabled="+strconv.FormatBool(enabled)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, err := c.AppsV1().Deployments("cozy-vmdisk").Get(t.Context(), "vmdisk-populator", metav1.GetOptions{})
		_, roleErr := c.RbacV1().ClusterRoles().Get(t.Context(), "vmdisk-populator", metav1.GetOptions{})
		_, quotaErr := c.CoreV1().ResourceQuotas("vmdisk-populator").Get(t.Context(), "populators", metav1.GetOptions{})
		for _, err := range []error{err, roleErr, quotaErr} {
			if enabled && err != nil || !enabled && !apierrors.IsNotFound(err) {
				t.Errorf("with populator.enabled=%v: %v", enabled, err)
			}
		}
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
