package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/plan/rebind"
)

// Moving finds the volume that is on its way to a claim; else the one of the first of the claims, which may be nil, that has one. Nil: there is none.
func Moving(ctx context.Context, from client.Reader, target types.UID, claims ...*corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	var all corev1.PersistentVolumeList
	if err := from.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("find the volume for claim %s: %w", target, err)
	}
	for i := range all.Items {
		if rebind.Begun(&all.Items[i], target) {
			return &all.Items[i], nil
		}
	}
	for _, claim := range claims {
		if claim != nil && claim.Spec.VolumeName != "" {
			return Find[corev1.PersistentVolume](ctx, from, types.NamespacedName{Name: claim.Spec.VolumeName})
		}
	}
	return nil, nil
}
