// Package away removes what was made in a source's namespace for a claim of another one that is gone. While the claim is there, that is the business
// of its own DataVolume; no finalizer keeps a claim for it.
package away

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

// Reconciler looks after DataVolumes that make a volume for a claim of another namespace.
type Reconciler struct {
	Reader client.Reader
	// Live is asked whether a claim is really gone.
	Live   client.Reader
	Writer *kube.Writer
}

// Reconcile removes one DataVolume, if its claim is gone.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	dv, err := kube.Find[cdiv1.DataVolume](ctx, r.Reader, request.NamespacedName)
	if err != nil || dv == nil {
		return reconcile.Result{}, err
	}
	uid := types.UID(dv.Labels[v1alpha1.ClonesLabel])
	namespace, name, ok := strings.Cut(dv.Annotations[v1alpha1.TargetAnnotation], "/")
	if uid == "" || !ok {
		return reconcile.Result{}, nil
	}
	target, err := kube.Find[corev1.PersistentVolumeClaim](ctx, r.Live, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil || target != nil && target.UID == uid && target.DeletionTimestamp == nil {
		return reconcile.Result{}, err
	}
	claim, err := kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	volume, err := kube.Moving(ctx, r.Reader, uid, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	status := kube.Target[map[string]string]{Object: dv, Whole: true, Status: func(o client.Object) *map[string]string { return &o.(*cdiv1.DataVolume).Annotations }}
	return kube.Carry(ctx, r.Writer, status, func(*action.Refusal) action.Decision[map[string]string] {
		return action.Decision[map[string]string]{
			Status:  dv.Annotations, // there is nobody to tell
			Actions: rebind.Undo(rebind.World{Temporary: claim, Keeper: dv, Volume: volume}),
		}
	})
}

// Setup says what wakes the reconciler: such a DataVolume, and the end of a claim.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[v1alpha1.ClonesLabel] != "" })
	going := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectNew.GetDeletionTimestamp() != nil },
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("away").
		For(&cdiv1.DataVolume{}, builder.WithPredicates(ours)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(r.of), builder.WithPredicates(going)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up what removes temporary disks: %w", err)
	}
	return nil
}

// of finds the DataVolume that makes a volume for a claim.
func (r *Reconciler) of(ctx context.Context, claim client.Object) []reconcile.Request {
	var all cdiv1.DataVolumeList
	if err := r.Reader.List(ctx, &all, client.MatchingLabels{v1alpha1.ClonesLabel: string(claim.GetUID())}); err != nil {
		return nil // the cache is not there yet; once it is, every such DataVolume is looked at
	}
	var requests []reconcile.Request
	for i := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}
