// Package populator reconciles bare claims whose dataSourceRef names a VolumeImportSource. A request's name is such a claim's UID: what was
// made for a claim that is gone is found, and removed, by it.
package populator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/populator"
)

// Reconciler reconciles claims that are to be filled by the populator. One at a time: each decides who is next from what it sees of all.
type Reconciler struct {
	Reader client.Reader
	// Live reads what isn't cached: Secrets and ConfigMaps by name, and a claim that isn't seen any more.
	Live     client.Reader
	Writer   *kube.Writer
	Settings populator.Settings
	Now      func() time.Time
}

// Reconcile brings one claim a step on.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	world, err := r.observe(ctx, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	object := subject(world)
	if object == nil {
		return reconcile.Result{}, nil
	}
	target := kube.Target[populator.Status]{
		Object: object,
		Status: annotationsOf,
		Whole:  true,
	}
	return kube.Carry(ctx, r.Writer, target, func(refusal *action.Refusal) action.Decision[populator.Status] {
		world.Refusal = refusal
		d := populator.Plan(world, r.Now())
		if world.Target == nil {
			d.Status = object.GetAnnotations() // there is nobody to tell
		}
		return d
	})
}

// annotationsOf are the annotations of one of the kinds that a decision can be about.
func annotationsOf(o client.Object) *populator.Status {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return (*populator.Status)(&o.Annotations)
	case *corev1.PersistentVolume:
		return (*populator.Status)(&o.Annotations)
	case *cdiv1.DataVolume:
		return (*populator.Status)(&o.Annotations)
	default:
		return new(populator.Status)
	}
}

// subject is whose status a decision is about: the target, or what is left of one.
func subject(w populator.World) client.Object {
	switch {
	case w.Target != nil:
		return w.Target
	case w.DataVolume != nil:
		return w.DataVolume
	case w.Temporary != nil:
		return w.Temporary
	case w.Volume != nil:
		return w.Volume
	default:
		return nil
	}
}

// Setup says what wakes the reconciler.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	ours := handler.EnqueueRequestsFromMapFunc(ofLabel)
	waiting := handler.EnqueueRequestsFromMapFunc(r.waiting)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("populator").
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ofClaim)).
		Watches(&corev1.PersistentVolumeClaim{}, r.whenTheLineMoves()).
		Watches(&cdiv1.DataVolume{}, ours).
		Watches(&cdiv1.DataVolume{}, r.whenTheLineMoves()).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(ofVolume)).
		Watches(&cdiv1.VolumeImportSource{}, handler.EnqueueRequestsFromMapFunc(r.ofSource)).
		Watches(&storagev1.StorageClass{}, waiting).
		Watches(&corev1.ResourceQuota{}, r.twice()).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up the populator: %w", err)
	}
	return nil
}
