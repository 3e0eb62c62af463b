// Package vmdisk reconciles VMDisks: it observes one, lets package disk decide, and carries the decision out.
package vmdisk

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/disk"
)

// Reconciler reconciles VMDisks.
type Reconciler struct {
	Reader client.Reader
	Writer *kube.Writer
	// DefaultClass is the class of a disk that names none; empty: the cluster's own default.
	DefaultClass string
	Now          func() time.Time
}

// Reconcile brings one VMDisk a step on.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	world, err := r.observe(ctx, request.NamespacedName)
	if err != nil || world.Disk == nil || world.Disk.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	target := kube.Target[v1alpha1.VMDiskStatus]{
		Object: world.Disk,
		Status: func(o client.Object) *v1alpha1.VMDiskStatus { return &o.(*v1alpha1.VMDisk).Status },
	}
	return kube.Carry(ctx, r.Writer, target, func(refusal *action.Refusal) action.Decision[v1alpha1.VMDiskStatus] {
		world.Refusal = refusal
		return disk.Plan(world, r.Now())
	})
}

// observe reads the disk, and the DataVolume and claim of its name.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (disk.World, error) {
	w := disk.World{DefaultClass: r.DefaultClass}
	var err error
	if w.Disk, err = kube.Find[v1alpha1.VMDisk](ctx, r.Reader, key); err != nil || w.Disk == nil {
		return w, err
	}
	if w.DataVolume, err = kube.Find[cdiv1.DataVolume](ctx, r.Reader, key); err != nil {
		return w, err
	}
	w.Claim, err = kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, key)
	return w, err
}

// Setup says what wakes the reconciler: the disk, and the DataVolume and claim of its name.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("vmdisk").
		For(&v1alpha1.VMDisk{}).
		Watches(&cdiv1.DataVolume{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.PersistentVolumeClaim{}, &handler.EnqueueRequestForObject{}).
		Complete(r)
}
