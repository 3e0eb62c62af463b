// Package storageprofile keeps one StorageProfile for each StorageClass, with the class's name.
package storageprofile

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/profile"
)

// Reconciler keeps StorageProfiles.
type Reconciler struct {
	Reader client.Reader
	Writer *kube.Writer
	Now    func() time.Time
}

// Reconcile makes the profile of a class, or brings its status up to date. A profile goes with its class, which owns it.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var class storagev1.StorageClass
	if err := r.Reader.Get(ctx, request.NamespacedName, &class); err != nil || class.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	found := &cdiv1.StorageProfile{}
	if err := r.Reader.Get(ctx, request.NamespacedName, found); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("read StorageProfile %s: %w", request.Name, err)
		}
		return kube.Make(ctx, r.Writer, newProfile(&class))
	}
	target := kube.Target[cdiv1.StorageProfileStatus]{
		Object: found,
		Status: func(o client.Object) *cdiv1.StorageProfileStatus { return &o.(*cdiv1.StorageProfile).Status },
	}
	return kube.Carry(ctx, r.Writer, target, func(*action.Refusal) action.Decision[cdiv1.StorageProfileStatus] {
		return action.Decision[cdiv1.StorageProfileStatus]{Status: profile.Status(found, &class, metav1.Time{Time: r.Now()})}
	})
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

// Setup says what wakes the reconciler: a class, and the profile of its name.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("storageprofile").
		For(&storagev1.StorageClass{}).
		Watches(&cdiv1.StorageProfile{}, &handler.EnqueueRequestForObject{}).
		Complete(r)
}
