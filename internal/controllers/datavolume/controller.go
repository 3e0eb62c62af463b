// Package datavolume reconciles DataVolumes: it observes one, lets package populate decide, and carries the decision out.
package datavolume

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// Reconciler reconciles DataVolumes.
type Reconciler struct {
	Reader client.Reader
	// Live reads what isn't kept in memory: pods that use what is cloned, and snapshots.
	Live   client.Reader
	Writer *kube.Writer
	Log    kube.Log
	// Settings are the installation's; the placement is added from the CDI object.
	Settings pod.Settings
	// Deadlines are for drivers that clone.
	Deadlines populate.Deadlines
	// Images tells where golden images are.
	Images clone.Images
	// Ended is told how each attempt ended, until that is remembered; nil for nobody.
	Ended func(populate.Attempt)
	Now   func() time.Time
}

// Reconcile brings one DataVolume a step on.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	world, err := r.observe(ctx, request.NamespacedName)
	if err != nil || world.DataVolume == nil || world.DataVolume.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	if attempt, ended := populate.Ended(world, r.Now()); ended && r.Ended != nil {
		r.Ended(attempt)
	}
	target := kube.Target[cdiv1.DataVolumeStatus]{
		Object: world.DataVolume,
		Status: func(o client.Object) *cdiv1.DataVolumeStatus { return &o.(*cdiv1.DataVolume).Status },
	}
	return kube.Carry(ctx, r.Writer, target, func(refusal *action.Refusal) action.Decision[cdiv1.DataVolumeStatus] {
		world.Refusal = refusal
		return populate.Plan(world, r.Now())
	})
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// quotaLags are how long after us the API server may see a quota's change: the second is for one that is busy.
func quotaLags() []time.Duration { return []time.Duration{2 * time.Second, 10 * time.Second} }

// again wakes whoever a changed quota may have been holding up, at once and a little later. The API server judges by a view of the quotas
// of its own, which may still be the old one when we ask at once.
func (r *Reconciler) again() handler.EventHandler {
	wake := func(ctx context.Context, changed client.Object, q queue) {
		for _, request := range r.unfinished(ctx, changed) {
			q.Add(request)
			for _, lag := range quotaLags() {
				q.AddAfter(request, lag)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, e.Object, q) },
	}
}

// atOnce is how many DataVolumes are reconciled side by side: reading a worker's log takes its time, and must not hold up the others.
const atOnce = 8

// Setup says what wakes the reconciler: the DataVolume and its children, and whatever a waiting one may wait for.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	waiting := handler.EnqueueRequestsFromMapFunc(r.unfinished)
	cloners := handler.EnqueueRequestsFromMapFunc(r.cloners)
	// What we write into its status is no news of a DataVolume.
	asked := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
	// An event that expires tells nothing new.
	lasting := predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}
	// Whom an older disk has held up needn't wait for it any more once it is gone.
	gone := handler.Funcs{DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
		for _, request := range r.unfinished(ctx, e.Object) {
			q.Add(request)
		}
	}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("datavolume").
		For(&cdiv1.DataVolume{}, builder.WithPredicates(asked)).
		Owns(&corev1.Pod{}).
		Watches(&corev1.PersistentVolumeClaim{}, &handler.EnqueueRequestForObject{}).
		Watches(&corev1.Event{}, handler.EnqueueRequestsFromMapFunc(r.concerned), builder.WithPredicates(lasting)).
		Watches(&cdiv1.DataVolume{}, gone).
		Watches(&corev1.PersistentVolumeClaim{}, cloners).
		Watches(&cdiv1.DataVolume{}, cloners).
		Watches(&cdiv1.DataSource{}, waiting).
		Watches(&cdiv1.DataVolume{}, handler.EnqueueRequestsFromMapFunc(ofAway)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(ofVolume)).
		Watches(&corev1.ResourceQuota{}, r.again()).
		Watches(&corev1.LimitRange{}, waiting).
		Watches(&storagev1.StorageClass{}, waiting).
		Watches(&cdiv1.StorageProfile{}, waiting).
		Watches(&cdiv1.CDI{}, waiting).
		WithOptions(controller.Options{MaxConcurrentReconciles: atOnce}).
		Complete(r)
}
