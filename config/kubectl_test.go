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
