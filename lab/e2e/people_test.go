//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/deploy"
	"vmdisk.io/vmdisk/lab/image"
)

// runProgram runs vmdisk as a person at a terminal does, and answers what it printed and its exit code.
func (n *tenant) runProgram(args ...string) (out []byte, code int) {
	n.t.Helper()
	program := filepath.Join(n.t.TempDir(), "vmdisk")
	if err := image.Compile(n.t.Context(), clone, "./cmd/vmdisk", program); err != nil {
		n.t.Fatal(err)
	}
	cmd := exec.CommandContext(n.t.Context(), program, append(args, "-n", n.name, "--kubeconfig", cluster.Kubeconfig())...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	if stderr.Len() > 0 {
		n.t.Errorf("vmdisk %q: %s", args, stderr.String())
	}
	return out, cmd.ProcessState.ExitCode()
}

// TestTheLabIsFitForDisks: vmdisk check finds no problem in the lab. It warns of what the lab has on purpose: classes of two drivers that
// vmdisk has never heard of. And it can't see whether nodes let workers open block devices. It runs alone, before the parallel scenarios:
// some of those make classes that are not fit.
func TestTheLabIsFitForDisks(t *testing.T) {
	n := newTenant(t)
	out, code := n.runProgram("check", "-o", "json")
	var got struct {
		Findings []struct{ Severity, About, Message string }
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var worth []string
	for _, f := range got.Findings {
		if f.Severity != "ok" {
			worth = append(worth, f.Severity+" "+f.About)
		}
	}
	want := []string{"unknown block devices", "warning StorageClass generic", "warning StorageClass generic-immediate", "warning StorageClass plain",
		"warning StorageClass plain-immediate"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(worth))); diff != "" || code != 0 {
		t.Errorf("exit code %d (-want +got):\n%s\n%s", code, diff, out)
	}
}

// TestADiskIsWatched: vmdisk status --watch follows a disk until it is ready, and tells whoever asks after one that fails.
func TestADiskIsWatched(t *testing.T) {
	t.Parallel()
	type look struct {
		State, Doing, Why string
		Parts             []struct{ Kind, Is string }
	}
	watch := func(n *tenant) (looks []look, code int) {
		out, code := n.runProgram("status", "disk", "--watch", "--every=1s", "-o", "json")
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var l look
			if err := d.Decode(&l); errors.Is(err, io.EOF) {
				return looks, code
			} else if err != nil {
				n.t.Fatalf("%v: %s", err, out)
			}
			looks = append(looks, l)
		}
	}
	t.Run("until it is ready", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.trustServer()
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: secureURL(qcow2File), CertConfigMap: authorityName}))
		looks, code := watch(n)
		if last := looks[len(looks)-1]; code != 0 || last.State != "Ready" || len(last.Parts) < 2 {
			t.Errorf("exit code %d after %+v", code, looks)
		}
		n.becomesReady("disk")
	})
	t.Run("until it fails", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.trustServer()
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: secureURL(qcow2File), CertConfigMap: authorityName,
			Checksum: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}))
		looks, code := watch(n)
		if last := looks[len(looks)-1]; code != 9 || last.State != "Failed" || last.Why == "" {
			t.Errorf("exit code %d after %+v", code, looks)
		}
	})
}

// TestTheControllerServesMetrics: a disk that was filled is counted, and the cluster's disks are measured.
func TestTheControllerServesMetrics(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	n.create(newDisk(blockNow, nil))
	n.becomesReady("disk")
	access, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	n.eventually(soon, "the metrics tell of the disk", func() error {
		page, err := c.CoreV1().Services("vmdisk").ProxyGet("http", "vmdisk-controller-metrics", "metrics", "/metrics", nil).DoRaw(t.Context())
		if err != nil {
			return err
		}
		for _, line := range []string{
			`vmdisk_attempts_total{outcome="Succeeded",source="blank"} `, `vmdisk_disk_ready_duration_seconds_count{source="blank"} `,
			`vmdisk_disks{phase="Succeeded"} `, `kubevirt_cdi_cr_ready 1`, `kubevirt_cdi_storageprofile_info{complete="true",default="true"`,
			`workqueue_depth{controller="datavolume",name="datavolume"`,
		} {
			if !bytes.Contains(page, []byte("\n"+line)) {
				return fmt.Errorf("%q is not among\n%s", line, page)
			}
		}
		return nil
	})
}

// TestLongTheChartIsInstalled: Helm installs vmdisk where there was none, upgrades it, and disks are made. It runs alone, since
// it takes the installation of the other scenarios away, and puts it back.
func TestLongTheChartIsInstalled(t *testing.T) {
	n := newTenant(t)
	ref := n.controllerImage()
	n.uninstall()
	t.Cleanup(func() {
		if err := deploy.Run(context.WithoutCancel(t.Context()), deploy.Options{Out: os.Stderr, Source: clone}); err != nil {
			t.Errorf("put vmdisk back: %v", err)
		}
	})
	for _, replicas := range []string{"1", "2"} {
		n.helm("upgrade", "--install", "vmdisk", filepath.Join(clone, "charts/vmdisk"), "--wait", "--timeout=2m", "--set", "image="+ref+",replicas="+replicas)
		disk := newDisk(blockNow, nil)
		disk.Name += replicas
		n.create(disk)
		n.becomesReady(disk.Name)
	}
	n.helm("uninstall", "vmdisk", "--wait", "--timeout=2m")
	get(n, "disk1", &v1alpha1.VMDisk{}) // an uninstalled vmdisk takes no disk with it
}

// helm runs Helm in vmdisk's namespace of the lab.
func (n *tenant) helm(args ...string) {
	n.t.Helper()
	cmd := exec.CommandContext(n.t.Context(), filepath.Join(cluster.BinDir(), "helm"), append(args, "-n", "vmdisk", "--kubeconfig", cluster.Kubeconfig())...)
	home := n.t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		n.t.Fatalf("helm %q: %v\n%s", args, err, out)
	}
}

// controllerImage is the image that runs in the lab; both nodes have it.
func (n *tenant) controllerImage() string {
	n.t.Helper()
	controller := &appsv1.Deployment{}
	if err := n.Get(n.t.Context(), client.ObjectKey{Namespace: "vmdisk", Name: "vmdisk-controller"}, controller); err != nil {
		n.t.Fatal(err)
	}
	return controller.Spec.Template.Spec.Containers[0].Image
}

// uninstall removes what config/ has installed, but for the kinds and the namespace.
func (n *tenant) uninstall() {
	n.t.Helper()
	manifests, err := config.Manifests(config.DefaultImage)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, o := range manifests {
		if o.GetKind() == "Namespace" {
			continue
		}
		if err := n.Delete(n.t.Context(), o); client.IgnoreNotFound(err) != nil {
			n.t.Fatalf("delete %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	n.eventually(soon, "the controller is gone", func() error {
		pods := &corev1.PodList{}
		if err := n.List(n.t.Context(), pods, client.InNamespace("vmdisk")); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are there", len(pods.Items))
		}
		return nil
	})
}
