// Package vmdisk reconciles VMDisks: it observes one, lets package disk decide, and carries the decision out.
package vmdisk

import (
	"context"
	"fmt"
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
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/disk"
	"vmdisk.io/vmdisk/internal/pod"
)

// Reconciler reconciles VMDisks.
type Reconciler struct {
	Reader client.Reader
	// Live reads what isn't kept in memory: the pods that use a disk.
	Live   client.Reader
	Writer *kube.Writer
	// Worker are the installation's settings for workers; the placement is added from the CDI object.
	Worker pod.Settings
	// DefaultClass is the class of a disk that names none; empty: the cluster's own default.
	DefaultClass string
	// Images tells where golden images are.
	Images clone.Images
	Now    func() time.Time
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
	w := disk.World{DefaultClass: r.DefaultClass, Images: r.Images}
	var err error
	if w.Disk, err = kube.Find[v1alpha1.VMDisk](ctx, r.Reader, key); err != nil || w.Disk == nil {
		return w, err
	}
	if w.DataVolume, err = kube.Find[cdiv1.DataVolume](ctx, r.Reader, key); err != nil {
		return w, err
	}
	if w.DataVolume == nil {
		if w.SourceClaim, err = r.sourceClaim(ctx, w.Disk); err != nil {
			return w, err
		}
	}
	if w.Claim, err = kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, key); err != nil || w.Claim == nil {
		return w, err
	}
	w.Growth, err = r.growth(ctx, w)
	return w, err
}

// sourceClaim is the claim of the disk that a disk is made from: that of its name, or else with the prefix that Cozystack puts before it.
func (r *Reconciler) sourceClaim(ctx context.Context, d *v1alpha1.VMDisk) (string, error) {
	if d.Spec.Source == nil || d.Spec.Source.Disk == nil {
		return "", nil
	}
	name := d.Spec.Source.Disk.Name
	for _, candidate := range []string{name, clone.ClaimPrefix + name} {
		claim, err := kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, types.NamespacedName{Namespace: d.Namespace, Name: candidate})
		if err != nil || claim != nil {
			return candidate, err
		}
	}
	return name, nil
}

// growth reads what the disk's growing depends on. Only a disk that grows needs to know of the cluster, and only one whose file is to be made
// longer asks the API server for all pods of its namespace.
func (r *Reconciler) growth(ctx context.Context, w disk.World) (disk.Growth, error) {
	g := disk.Growth{Settings: r.Worker}
	var err error
	name := types.NamespacedName{Namespace: w.Claim.Namespace, Name: pod.GrowerName(w.Claim.UID)}
	if g.Worker, err = kube.Find[corev1.Pod](ctx, r.Reader, name); err != nil || !w.Grows() {
		return g, err
	}
	if g.Cluster, g.Settings.Placement, err = kube.Cluster(ctx, r.Reader); err != nil {
		return g, err
	}
	if g.Warnings, err = kube.Warnings(ctx, r.Reader, w.Claim, g.Worker); err != nil {
		return g, err
	}
	if w.Growth = g; !w.FileGrows() {
		return g, nil
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(w.Claim.Namespace)); err != nil {
		return g, fmt.Errorf("list the pods that may use claim %s: %w", w.Claim.Name, err)
	}
	g.Users = disk.UsersOf(w.Claim, pods.Items)
	return g, nil
}

// Setup says what wakes the reconciler: the disk, its workers, and the DataVolume and claim of its name.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("vmdisk").
		For(&v1alpha1.VMDisk{}).
		Owns(&corev1.Pod{}).
		Watches(&cdiv1.DataVolume{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.PersistentVolumeClaim{}, &handler.EnqueueRequestForObject{}).
		Complete(r)
}
