// Package storageprofile keeps one StorageProfile for each StorageClass, with the class's name.
package storageprofile

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/profile"
)

// Reconciler keeps StorageProfiles.
type Reconciler struct {
	Reader client.Reader
	// Snapshots reads VolumeSnapshotClasses from the API server itself: where it doesn't serve them, there is nothing to cache.
	Snapshots client.Reader
	Writer    *kube.Writer
	Now       func() time.Time
	// watched: a VolumeSnapshotClass wakes the reconciler.
	watched bool
}

// lookAgain is how long a profile may not know that VolumeSnapshotClasses came to be served: nothing wakes for that.
const lookAgain = 10 * time.Minute

// Reconcile makes the profile of a class, or brings its status up to date. A profile goes with its class, which owns it.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class, err := kube.Find[storagev1.StorageClass](ctx, r.Reader, request.NamespacedName)
	if err != nil || class == nil || class.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	found, err := kube.Find[cdiv1.StorageProfile](ctx, r.Reader, request.NamespacedName)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case found == nil:
		return kube.Make(ctx, r.Writer, newProfile(class))
	}
	target := kube.Target[cdiv1.StorageProfileStatus]{
		Object: found,
		Status: func(o client.Object) *cdiv1.StorageProfileStatus { return &o.(*cdiv1.StorageProfile).Status },
	}
	cluster, err := r.cluster(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := kube.Carry(ctx, r.Writer, target, func(*action.Refusal) action.Decision[cdiv1.StorageProfileStatus] {
		return action.Decision[cdiv1.StorageProfileStatus]{Status: profile.Status(found, class, cluster, metav1.Time{Time: r.Now()})}
	})
	if err == nil && result.IsZero() && !r.watched {
		result.RequeueAfter = lookAgain
	}
	return result, err
}

// cluster reads of which drivers there are VolumeSnapshotClasses. A cluster that doesn't serve the kind has none.
func (r *Reconciler) cluster(ctx context.Context) (profile.Cluster, error) {
	classes := &unstructured.UnstructuredList{}
	kind := clone.SnapshotClass()
	classes.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := r.Snapshots.List(ctx, classes); err != nil && !meta.IsNoMatchError(err) {
		return profile.Cluster{}, fmt.Errorf("list VolumeSnapshotClasses: %w", err)
	}
	var c profile.Cluster
	for _, class := range classes.Items {
		driver, _, err := unstructured.NestedString(class.Object, "driver")
		if err != nil {
			return profile.Cluster{}, fmt.Errorf("read VolumeSnapshotClass %s: %w", class.GetName(), err)
		}
		c.SnapshotDrivers = append(c.SnapshotDrivers, driver)
	}
	return c, nil
}

func newProfile(class *storagev1.StorageClass) *cdiv1.StorageProfile {
	return &cdiv1.StorageProfile{
		TypeMeta: metav1.TypeMeta{APIVersion: cdiv1.SchemeGroupVersion.String(), Kind: "StorageProfile"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            class.Name,
			Annotations:     profile.Annotations(class),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(class, storagev1.SchemeGroupVersion.WithKind("StorageClass"))},
		},
	}
}

// Setup says what wakes the reconciler: a class, the profile of its name, and for all of them a VolumeSnapshotClass.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("storageprofile").
		For(&storagev1.StorageClass{}).
		Watches(&cdiv1.StorageProfile{}, &handler.EnqueueRequestForObject{})
	_, err := mgr.GetRESTMapper().RESTMapping(clone.SnapshotClass().GroupKind(), clone.SnapshotClass().Version)
	switch {
	case err == nil:
		kind := &unstructured.Unstructured{}
		kind.SetGroupVersionKind(clone.SnapshotClass())
		b, r.watched = b.Watches(kind, handler.EnqueueRequestsFromMapFunc(r.everyClass)), true
	case !meta.IsNoMatchError(err):
		return fmt.Errorf("ask whether VolumeSnapshotClasses are served: %w", err)
	}
	return b.Complete(r)
}

func (r *Reconciler) everyClass(ctx context.Context, _ client.Object) []reconcile.Request {
	var classes storagev1.StorageClassList
	if err := r.Reader.List(ctx, &classes); err != nil {
		return nil // the cache can't fail to list; and if it could, the class's next change would do
	}
	var requests []reconcile.Request
	for _, class := range classes.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&class)})
	}
	return requests
}
