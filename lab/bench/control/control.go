// Package control measures the control plane alone: what many VMDisks at once cost the API server and the controller. It runs a real etcd
// and API server, and "vmdisk controller" as it is released, with the rights of its ServiceAccount. Storage, scheduler, kubelet and workers
// are played, so that no byte is copied and nothing else takes the processors.
//
// Like the rest of the benchmark it is an outsider, but for one thing: who plays a worker must speak its words, which are internal/job's.
package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/cluster"
)

// Options say what is measured.
type Options struct {
	// Out gets what is done, and the tables.
	Out io.Writer
	// Vmdisk is the program to measure.
	Vmdisk string
	// Disks is how many are made, half of them from an image and half of them blank.
	Disks int
	// Filling is how long each worker runs. While one does, the controller reads its log.
	Filling time.Duration
	// Patience is how long all of it may take.
	Patience time.Duration
}

// Run measures and prints. It fails if the disks do not become ready, but not if an aim is missed: the table says so.
func Run(ctx context.Context, o Options) (err error) {
	if err := cluster.Build(ctx, cluster.Options{Out: o.Out}); err != nil {
		return fmt.Errorf("build the API server: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Patience, fmt.Errorf("the disks are not ready after %s", o.Patience))
	defer cancel()
	dir, err := os.MkdirTemp("", "vmdisk-bench-control-")
	if err != nil {
		return fmt.Errorf("make a directory for the audit log: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := startPlane(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	played, err := play(ctx, p.admin, o.Filling)
	if err != nil {
		return err
	}
	defer played.stop()
	c, err := p.startController(ctx, o.Vmdisk, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	fmt.Fprintf(o.Out, "%d VMDisks are made; each worker runs for %s\n", o.Disks, o.Filling)
	began := time.Now()
	if err := played.makeDisks(ctx, o.Disks); err != nil {
		return err
	}
	made := time.Since(began)
	if err := played.waitReady(ctx, o.Disks); err != nil {
		return fmt.Errorf("%w; the controller's log ends with: %s", err, c.lastWords())
	}
	f := findings{disks: o.Disks, made: made, ready: time.Since(began)}
	if f.peak, err = c.peakMemory(); err != nil {
		return err
	}
	if f.metrics, err = c.metrics(ctx); err != nil {
		return err
	}
	// Events are written behind the reconcilers' backs, and the audit log behind the API server's.
	if f.calls, err = quietCalls(ctx, filepath.Join(dir, auditLog), began); err != nil {
		return err
	}
	return f.print(o.Out)
}

// scheme knows every kind that is made or played.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cdi.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return s, nil
}
