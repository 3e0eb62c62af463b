//go:build e2e

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/csi"
	"vmdisk.io/vmdisk/lab/deploy"
	"vmdisk.io/vmdisk/lab/lockfile"
)

// clone is the root of the sources, seen from this package.
const clone = "../.."

// atOnce is how many scenarios run at a time. They mostly wait, so it is more than there are cores.
const atOnce = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard()) // controller-runtime's clients want one
	os.Exit(runAll(m))
}

// runAll prepares the lab, runs the tests, stops the image server and waits until the tests' namespaces are gone.
func runAll(m *testing.M) int {
	if !given("test.parallel") {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			return complain(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// One run at a time: there is one lab, one vmdisk in it, and each run begins with removing what another has left.
	alone, err := takeLab(ctx)
	if err == nil {
		defer alone.Close() // which gives the lock back; nothing was written
		err = prepare(ctx)
	}
	stop() // from here on a signal ends the process, as it does for any test
	if err != nil {
		return complain(err)
	}
	code := m.Run()
	if err := errors.Join(removeTenants(context.Background()), stopServer(context.Background())); err != nil {
		return complain(err)
	}
	return code
}

// takeLab waits until no other run of the scenarios uses the lab.
func takeLab(ctx context.Context) (*os.File, error) {
	dir := filepath.Dir(imagesDir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the images: %w", err)
	}
	return lockfile.Take(ctx, filepath.Join(dir, "e2e.lock"), func() {
		fmt.Fprintln(os.Stderr, "waiting for another run of the scenarios to end")
	})
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// given says whether a flag stands on the command line.
func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// prepare has the lab up, with the vmdisk of this clone in it, and the images and their server.
func prepare(ctx context.Context) error {
	if err := cluster.Up(ctx, cluster.Options{Out: os.Stderr, Source: clone}); err != nil {
		return fmt.Errorf("bring the lab up: %w", err)
	}
	if err := csi.ClearFaults(cluster.CSIDir()); err != nil { // those of a run that was killed
		return err
	}
	options := deploy.Options{Out: os.Stderr, Source: clone}
	if err := deploy.Run(ctx, options); err != nil {
		return fmt.Errorf("deploy vmdisk: %w", err)
	}
	tools, err := deploy.Tools(ctx, options)
	if err != nil {
		return fmt.Errorf("make the image of the test pods: %w", err)
	}
	if err := makeImages(ctx); err != nil {
		return fmt.Errorf("make the disk images: %w", err)
	}
	if err := removeTenants(ctx); err != nil {
		return err
	}
	return startServer(ctx, tools)
}

// tenantLabel marks the namespaces and the classes of the scenarios.
const tenantLabel = "e2e.vmdisk.io/tenant"

// removeTenants deletes the namespaces and classes of all scenarios, those of a killed run among them, and waits until the
// namespaces and their volumes are gone.
func removeTenants(ctx context.Context) error {
	c, err := connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("namespaces of the scenarios don't go away: see kubectl get all,pvc -A"))
	defer cancel()
	if err := c.DeleteAllOf(ctx, &storagev1.StorageClass{}, client.HasLabels{tenantLabel}); err != nil {
		return fmt.Errorf("delete the scenarios' StorageClasses: %w", err)
	}
	for {
		var left corev1.NamespaceList
		if err := c.List(ctx, &left, client.HasLabels{tenantLabel}); err != nil {
			return fmt.Errorf("list the scenarios' namespaces: %w", errors.Join(err, context.Cause(ctx)))
		}
		volumes, err := tenantsVolumes(ctx, c)
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if len(left.Items) == 0 && volumes == 0 {
			return nil
		}
		for i := range left.Items {
			if err := c.Delete(ctx, &left.Items[i]); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete namespace %s: %w", left.Items[i].Name, err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// tenantsVolumes counts the PersistentVolumes of the scenarios' claims.
func tenantsVolumes(ctx context.Context, c client.Reader) (int, error) {
	var volumes corev1.PersistentVolumeList
	if err := c.List(ctx, &volumes); err != nil {
		return 0, fmt.Errorf("list volumes: %w", err)
	}
	n := 0
	for _, v := range volumes.Items {
		if v.Spec.ClaimRef != nil && isTenant(v.Spec.ClaimRef.Namespace) {
			n++
		}
	}
	return n, nil
}
