// Package controllers is the table of contents of the control plane: it lists the controllers and gives each what it needs.
package controllers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/controllers/away"
	"vmdisk.io/vmdisk/internal/controllers/cdiconfig"
	"vmdisk.io/vmdisk/internal/controllers/datavolume"
	"vmdisk.io/vmdisk/internal/controllers/storageprofile"
	"vmdisk.io/vmdisk/internal/controllers/vmdisk"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// Options are an installation's settings.
type Options struct {
	// Worker are the settings for worker pods.
	Worker pod.Settings
	// Deadlines are for drivers that clone.
	Deadlines populate.Deadlines
	// Images tells where golden images are.
	Images clone.Images
	// DefaultClass is the class of a VMDisk that names none; empty: the cluster's own default.
	DefaultClass string
	// Engine makes the disks of DataVolumes. Where it is CDI, what CDI serves is left to it.
	Engine clone.Engine
	// Ended is told how each attempt ended, for the metrics; it may be told one twice. Nil for nobody.
	Ended func(populate.Attempt)
}

// Controller is one of the controllers.
type Controller interface {
	Setup(ctrl.Manager) error
}

// All are the controllers.
func All(mgr ctrl.Manager, o Options) ([]Controller, error) {
	pods, err := corev1client.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("make a client for logs: %w", err)
	}
	writer := kube.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("vmdisk"))
	reader := mgr.GetCache()
	disks := &vmdisk.Reconciler{
		Reader: reader, Live: mgr.GetAPIReader(), Writer: writer, Worker: o.Worker, DefaultClass: o.DefaultClass, Images: o.Images, Now: time.Now,
	}
	if o.Engine == clone.EngineCDI {
		return []Controller{disks}, nil
	}
	return []Controller{
		disks,
		&datavolume.Reconciler{Reader: reader, Live: mgr.GetAPIReader(), Writer: writer, Deadlines: o.Deadlines, Images: o.Images, Log: kube.ReadLog(pods), Settings: o.Worker, Ended: o.Ended, Now: time.Now},
		&away.Reconciler{Reader: reader, Live: mgr.GetAPIReader(), Writer: writer},
		&storageprofile.Reconciler{Reader: reader, Snapshots: mgr.GetAPIReader(), Writer: writer, Now: time.Now},
		&cdiconfig.Reconciler{Reader: reader, Writer: writer},
	}, nil
}

// Scheme knows every type that the controllers speak of.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cdi.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return scheme, nil
}

// Cached says what the controllers keep in memory: of the pods only the workers, of the events only the warnings.
func Cached() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:   {Label: workers()},
			&corev1.Event{}: {Field: fields.OneTermEqualSelector("type", corev1.EventTypeWarning)},
		},
	}
}

// Index prepares the look-ups that the controllers make.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &corev1.Event{}, kube.ByInvolvedUID, func(o client.Object) []string {
		return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
	})
}
