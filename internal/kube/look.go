package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	sdkapi "kubevirt.io/controller-lifecycle-operator-sdk/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/config"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// ByInvolvedUID is the field index of events by the UID of the object that they are about.
const ByInvolvedUID = "involvedObject.uid"

// Cluster reads what claims are judged against, and where the CDI object wants workers. The configuration counts from the moment that it is
// in that object.
func Cluster(ctx context.Context, from client.Reader) (volume.Cluster, sdkapi.NodePlacement, error) {
	var placement sdkapi.NodePlacement
	operator, err := Find[cdiv1.CDI](ctx, from, types.NamespacedName{Name: cdi.CDIName})
	if err != nil {
		return volume.Cluster{}, placement, err
	}
	if operator != nil {
		placement = operator.Spec.Workloads
	}
	var classes storagev1.StorageClassList
	var profiles cdiv1.StorageProfileList
	for _, list := range []client.ObjectList{&classes, &profiles} {
		if err := from.List(ctx, list); err != nil {
			return volume.Cluster{}, placement, fmt.Errorf("list %T: %w", list, err)
		}
	}
	c, err := Find[cdiv1.CDIConfig](ctx, from, types.NamespacedName{Name: cdi.ConfigName})
	if err != nil {
		return volume.Cluster{}, placement, err
	}
	return volume.Cluster{Classes: classes.Items, Profiles: profiles.Items, Config: config.InForce(operator, c, classes.Items)}, placement, nil
}

// Warnings reads the Warning events about a claim and its worker, which may be nil, the newest last.
func Warnings(ctx context.Context, from client.Reader, claim *corev1.PersistentVolumeClaim, worker *corev1.Pod) ([]corev1.Event, error) {
	uids := []types.UID{claim.UID}
	if worker != nil {
		uids = append(uids, worker.UID)
	}
	var warnings []corev1.Event
	for _, uid := range uids {
		var list corev1.EventList
		if err := from.List(ctx, &list, client.InNamespace(claim.Namespace), client.MatchingFields{ByInvolvedUID: string(uid)}); err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		warnings = append(warnings, list.Items...)
	}
	slices.SortStableFunc(warnings, func(a, b corev1.Event) int { return cause.LastSeen(a).Compare(cause.LastSeen(b).Time) })
	return warnings, nil
}
