// Package apiserver starts a real etcd and kube-apiserver for one test, with vmdisk's kinds and objects installed but no
// node and no controller. It is for what only the real API server decides: validation rules, defaults, access, quotas.
// It must know nothing of what vmdisk's controllers do.
package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"vmdisk.io/vmdisk/config"
	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/deploy"
)

// Start starts an API server, without vmdisk's webhooks, and returns the administrator's access to it; the test's end stops it. The programs are the
// lab's own. Where they are missing, Start builds them, which needs root and about a quarter of an hour, more than go
// test's default of 10 minutes: make test-apiserver, or go test -timeout 45m.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	access, _ := StartEmpty(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := deploy.Apply(ctx, access, config.DefaultImage); err != nil {
		t.Fatalf("install vmdisk's kinds and objects: %v", err)
	}
	forgetWebhooks(ctx, t, access)
	return access
}

// forgetWebhooks makes the API server not ask vmdisk, which no Service leads to here. A test of the webhooks brings its own.
func forgetWebhooks(ctx context.Context, t testing.TB, access *rest.Config) {
	t.Helper()
	c, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	all := c.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if err := all.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatalf("delete vmdisk's webhooks: %v", err)
	}
}

// StartEmpty is Start without vmdisk's kinds and objects. It also returns the path of a kubeconfig for the same access.
func StartEmpty(t testing.TB) (access *rest.Config, kubeconfig string) {
	t.Helper()
	if missing := firstMissing(); missing != "" {
		t.Logf("%s is not there: building the lab's programs (about a quarter of an hour the first time on a machine)", missing)
		if err := cluster.Build(t.Context(), cluster.Options{Out: os.Stderr}); err != nil {
			t.Fatalf("build the API server: %v", err)
		}
	}
	environment, err := Run()
	if err != nil {
		t.Fatal(err)
	}
	access = environment.Config
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatalf("write the kubeconfig: %v", err)
	}
	return access, kubeconfig
}

// Run starts etcd and the API server, with more arguments for the latter, such as "audit-log-path". The programs must be there. The caller
// stops the environment.
func Run(arguments ...[2]string) (*envtest.Environment, error) {
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    cluster.BinDir(),
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	configured := environment.ControlPlane.GetAPIServer().Configure()
	// The rest is as in a cluster; without controllers nobody would make the accounts that this plugin waits for.
	configured.Set("disable-admission-plugins", "ServiceAccount")
	for _, a := range arguments {
		configured.Set(a[0], a[1])
	}
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Enable("unsafe-no-fsync")
	access, err := environment.Start()
	if err != nil {
		return nil, fmt.Errorf("start an API server from %s: %w", cluster.BinDir(), err)
	}
	access.QPS, access.Burst = 1000, 1000
	return environment, nil
}

// firstMissing is the path of a program that isn't built yet, or empty.
func firstMissing() string {
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
		path := filepath.Join(cluster.BinDir(), name)
		if _, err := os.Stat(path); err != nil {
			return path
		}
	}
	return ""
}
