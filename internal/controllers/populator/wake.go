package populator

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/populator"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func request(target types.UID) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: string(target)}}}
}

// ofLabel is the target of one of the populator's own objects.
func ofLabel(_ context.Context, o client.Object) []reconcile.Request {
	if target := o.GetLabels()[v1alpha1.PopulatesLabel]; target != "" {
		return request(types.UID(target))
	}
	return nil
}

// ofClaim is a claim's own request, where it is a target, or its target's, where it is a temporary one.
func ofClaim(ctx context.Context, o client.Object) []reconcile.Request {
	if populator.Wants(o.(*corev1.PersistentVolumeClaim)) {
		return request(o.GetUID())
	}
	return ofLabel(ctx, o)
}

// ofVolume is the target of a volume that is on its way.
func ofVolume(_ context.Context, o client.Object) []reconcile.Request {
	if m, ok := rebind.MarkOf(o.(*corev1.PersistentVolume)); ok {
		return request(m.Target)
	}
	return nil
}

// ofSource are the targets that a source fills.
func (r *Reconciler) ofSource(ctx context.Context, o client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, t := range r.pending(ctx) {
		if t.Namespace == o.GetNamespace() && t.Spec.DataSourceRef.Name == o.GetName() {
			requests = append(requests, request(t.UID)...)
		}
	}
	return requests
}

// waiting are all targets that have no volume yet.
func (r *Reconciler) waiting(ctx context.Context, _ client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, t := range r.pending(ctx) {
		requests = append(requests, request(t.UID)...)
	}
	return requests
}

// pending reads the targets that have no volume yet. An error means that the cache isn't there yet; once it is, all are reconciled.
func (r *Reconciler) pending(ctx context.Context) []corev1.PersistentVolumeClaim {
	all, err := r.targets(ctx)
	if err != nil {
		return nil
	}
	return all
}

// whenTheLineMoves wakes those that wait when somebody leaves the line: one goes, or lacks something.
func (r *Reconciler) whenTheLineMoves() handler.EventHandler {
	wake := func(ctx context.Context, q queue) {
		for _, next := range r.waiting(ctx, nil) {
			q.Add(next)
		}
	}
	concerns := func(o client.Object) bool {
		c, claim := o.(*corev1.PersistentVolumeClaim)
		return o.GetLabels()[v1alpha1.PopulatesLabel] != "" || claim && populator.Wants(c)
	}
	return handler.Funcs{
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if concerns(e.Object) {
				wake(ctx, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*corev1.PersistentVolumeClaim)
			after, _ := e.ObjectNew.(*corev1.PersistentVolumeClaim)
			if ok && populator.Lacks(before) != populator.Lacks(after) {
				wake(ctx, q)
			}
		},
	}
}

// quotaLag is how long after us the API server may see a quota's change.
const quotaLag = 2 * time.Second

// twice wakes those that wait when a quota has changed, at once and once the API server knows it as well.
func (r *Reconciler) twice() handler.EventHandler {
	wake := func(ctx context.Context, q queue) {
		for _, next := range r.waiting(ctx, nil) {
			q.Add(next)
			q.AddAfter(next, quotaLag)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q queue) { wake(ctx, q) },
		UpdateFunc: func(ctx context.Context, _ event.UpdateEvent, q queue) { wake(ctx, q) },
		DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q queue) { wake(ctx, q) },
	}
}
