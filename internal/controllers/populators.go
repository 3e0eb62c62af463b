package controllers

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/controllers/populator"
	"vmdisk.io/vmdisk/internal/kube"
	plan "vmdisk.io/vmdisk/internal/plan/populator"
)

// Populator is the one controller of the populator's own process, which alone may read tenants' Secrets.
func Populator(ctx context.Context, mgr ctrl.Manager, settings plan.Settings) (Controller, error) {
	if err := populator.Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	return &populator.Reconciler{
		Reader:   mgr.GetCache(),
		Live:     mgr.GetAPIReader(),
		Writer:   kube.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("vmdisk-populator")),
		Settings: settings,
		Now:      time.Now,
	}, nil
}

// PopulatorCached says what it keeps in memory: of DataVolumes and quotas only those of its namespace.
func PopulatorCached(namespace string) cache.Options {
	own := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&cdiv1.DataVolume{}: own, &corev1.ResourceQuota{}: own},
	}
}
