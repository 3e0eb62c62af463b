// Package cdiconfig keeps the one CDIConfig: it exists, and its status spells out what is in force.
package cdiconfig

import (
	"context"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/config"
)

// Reconciler keeps the CDIConfig.
type Reconciler struct {
	Reader client.Reader
	Writer *kube.Writer
}

// Reconcile brings the CDIConfig up to date. It comes with the installation; if somebody deletes it, which KubeVirt and virtctl could not do
// without, it is made again.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var classes storagev1.StorageClassList
	if err := r.Reader.List(ctx, &classes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list StorageClasses: %w", err)
	}
	operator, err := kube.Find[cdiv1.CDI](ctx, r.Reader, types.NamespacedName{Name: cdi.CDIName})
	if err != nil {
		return reconcile.Result{}, err
	}
	found, err := kube.Find[cdiv1.CDIConfig](ctx, r.Reader, types.NamespacedName{Name: cdi.ConfigName})
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case found == nil:
		return kube.Make(ctx, r.Writer, newConfig())
	}
	wanted := config.InForce(operator, found, classes.Items)
	target := kube.Target[content]{
		Object: found,
		Status: func(o client.Object) *content { return (*content)(o.(*cdiv1.CDIConfig)) },
		Whole:  true,
	}
	return kube.Carry(ctx, r.Writer, target, func(*action.Refusal) action.Decision[content] {
		return action.Decision[content]{Status: content(*wanted)}
	})
}

// content is the whole object: its kind has no status subresource, and its spec follows the CDI object's.
type content cdiv1.CDIConfig

func newConfig() *cdiv1.CDIConfig {
	return &cdiv1.CDIConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: cdiv1.SchemeGroupVersion.String(), Kind: "CDIConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: cdi.ConfigName},
	}
}

// Setup says what wakes the reconciler: the CDIConfig, the CDI object, and any class, since each has an entry.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: cdi.ConfigName}}}
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("cdiconfig").
		For(&cdiv1.CDIConfig{}).
		Watches(&cdiv1.CDI{}, one).
		Watches(&storagev1.StorageClass{}, one).
		Complete(r)
}
