//go:build apiserver

package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/lab/apiserver"
	"vmdisk.io/vmdisk/lab/cluster"
)

// TestTheBundlesInstallWithKubectlAlone follows README's quick start on a cluster that has never seen vmdisk, twice.
func TestTheBundlesInstallWithKubectlAlone(t *testing.T) {
	_, kubeconfig := apiserver.StartEmpty(t)
	dist := t.TempDir()
	run(t, "..", nil, "make", "manifests", "DIST="+dist, "IMAGE=registry.example/vmdisk:v1")
	kubectl := func(arguments ...string) string {
		program := filepath.Join(cluster.BinDir(), "kubectl")
		return run(t, dist, []string{"KUBECONFIG=" + kubeconfig}, append([]string{program}, arguments...)...)
	}
	for round := range 2 {
		kubectl("apply", "--server-side", "-f", "crds.yaml")
		kubectl("wait", "--for=condition=Established", "-f", "crds.yaml")
		kubectl("apply", "--server-side", "-f", "install.yaml")
		if round == 0 { // what the controller writes must not be in the way of an upgrade, nor be lost by it
			kubectl("patch", "cdiconfig", "config", "--type=merge", "--field-manager=vmdisk", "-p",
				`{"spec":{"preallocation":true},"status":{"filesystemOverhead":{"global":"0.06"}}}`)
		}
	}
	type view struct{ Phase, Config, Image string }
	got := view{
		Config: kubectl("get", "cdiconfig", "config", "-o", "jsonpath={.spec.preallocation} {.status.filesystemOverhead.global}"),
		Phase:  kubectl("get", "cdi", "cdi", "-o", "jsonpath={.status.phase}"),
		Image:  kubectl("-n", "vmdisk", "get", "deployment", "vmdisk-controller", "-o", "jsonpath={.spec.template.spec.containers[0].image}"),
	}
	if diff := cmp.Diff(view{Phase: "Deployed", Config: "true 0.06", Image: "registry.example/vmdisk:v1"}, got); diff != "" {
		t.Errorf("what is installed (-want +got):\n%s", diff)
	}
}

// another is a kind of another group with the same names, but for the short one.
const another = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: vmdisks.apps.example.com
spec:
  group: apps.example.com
  names: {kind: VMDisk, listKind: VMDiskList, plural: vmdisks, singular: vmdisk}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
---
apiVersion: vmdisk.io/v1alpha1
kind: VMDisk
metadata: {namespace: default, name: web}
spec: {storage: 1Gi}
`

// TestVMDisksAreFoundWhereAnotherGroupServesThem is what README advises.
func TestVMDisksAreFoundWhereAnotherGroupServesThem(t *testing.T) {
	_, kubeconfig := apiserver.StartEmpty(t)
	dist := t.TempDir()
	crd, object, _ := strings.Cut(another, "---")
	for name, text := range map[string]string{"crd.yaml": crd, "disk.yaml": object} {
		if err := os.WriteFile(filepath.Join(dist, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "..", nil, "make", "manifests", "DIST="+dist)
	kubectl := func(arguments ...string) string {
		program := filepath.Join(cluster.BinDir(), "kubectl")
		return run(t, dist, []string{"KUBECONFIG=" + kubeconfig}, append([]string{program}, arguments...)...)
	}
	kubectl("apply", "--server-side", "-f", "crds.yaml", "-f", "crd.yaml")
	kubectl("wait", "--for=condition=Established", "-f", "crds.yaml", "-f", "crd.yaml")
	kubectl("apply", "--server-side", "-f", "disk.yaml")
	for _, said := range []string{"vmdisks.vmdisk.io", "vmdisk.vmdisk.io", "vmd"} {
		if got := kubectl("get", said, "-o", "name"); got != "vmdisk.vmdisk.io/web\n" {
			t.Errorf("kubectl get %s prints %q", said, got)
		}
	}
}

// run runs a command and returns what it printed.
func run(t *testing.T, dir string, env []string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}
