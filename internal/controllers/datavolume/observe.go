package datavolume

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/config"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// ByInvolvedUID is the field index of events by the UID of the object that they are about.
const ByInvolvedUID = "involvedObject.uid"

// observe reads everything that the decision about a DataVolume needs. The DataVolume is nil when there is none.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (populate.World, error) {
	w := populate.World{Settings: r.Settings}
	var err error
	if w.DataVolume, err = kube.Find[cdiv1.DataVolume](ctx, r.Reader, key); err != nil || w.DataVolume == nil {
		return w, err
	}
	operator, err := kube.Find[cdiv1.CDI](ctx, r.Reader, types.NamespacedName{Name: cdi.CDIName})
	if err != nil {
		return w, err
	}
	if operator != nil {
		w.Settings.Placement = operator.Spec.Workloads
	}
	if w.Cluster, err = r.cluster(ctx, operator); err != nil {
		return w, err
	}
	if w.Claim, err = kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, key); err != nil {
		return w, err
	}
	if w.Claim == nil {
		w.Line, err = r.line(ctx, w.DataVolume)
		return w, err
	}
	worker := types.NamespacedName{Namespace: key.Namespace, Name: pod.Name(w.Claim.UID)}
	if w.Worker, err = kube.Find[corev1.Pod](ctx, r.Reader, worker); err != nil {
		return w, err
	}
	if w.Worker == nil && w.DataVolume.Status.Phase != cdiv1.Succeeded {
		if w.Line, err = r.line(ctx, w.DataVolume); err != nil {
			return w, err
		}
	}
	if w.Warnings, err = r.warnings(ctx, w.Claim, w.Worker); err != nil {
		return w, err
	}
	if w.Worker != nil && w.Worker.Status.Phase == corev1.PodRunning {
		w.Progress = r.Progress(ctx, w.Worker)
		w.Active, err = r.active(ctx)
	}
	return w, err
}

// line reads the quotas of a disk's namespace, and the older disks that they have refused.
func (r *Reconciler) line(ctx context.Context, self *cdiv1.DataVolume) (populate.Line, error) {
	var quotas corev1.ResourceQuotaList
	if err := r.Reader.List(ctx, &quotas, client.InNamespace(self.Namespace)); err != nil {
		return populate.Line{}, fmt.Errorf("list quotas: %w", err)
	}
	line := populate.Line{Quotas: quotas.Items}
	if len(quotas.Items) == 0 {
		return line, nil
	}
	var all cdiv1.DataVolumeList
	if err := r.Reader.List(ctx, &all, client.InNamespace(self.Namespace)); err != nil {
		return line, fmt.Errorf("list DataVolumes: %w", err)
	}
	slices.SortFunc(all.Items, populate.ByAge)
	for _, dv := range all.Items {
		if dv.UID == self.UID {
			break
		}
		claim, worker := populate.Refused(&dv)
		switch {
		case dv.DeletionTimestamp != nil:
		case claim:
			line.Claims = append(line.Claims, dv)
		case worker:
			line.Workers = append(line.Workers, dv)
		}
	}
	return line, nil
}

// cluster reads what claims are judged against. The configuration counts from the moment that it is in the CDI object.
func (r *Reconciler) cluster(ctx context.Context, operator *cdiv1.CDI) (volume.Cluster, error) {
	var classes storagev1.StorageClassList
	var profiles cdiv1.StorageProfileList
	for _, list := range []client.ObjectList{&classes, &profiles} {
		if err := r.Reader.List(ctx, list); err != nil {
			return volume.Cluster{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	c, err := kube.Find[cdiv1.CDIConfig](ctx, r.Reader, types.NamespacedName{Name: cdi.ConfigName})
	if err != nil {
		return volume.Cluster{}, err
	}
	return volume.Cluster{Classes: classes.Items, Profiles: profiles.Items, Config: config.InForce(operator, c, classes.Items)}, nil
}

// active counts the disks that are being filled.
func (r *Reconciler) active(ctx context.Context) (int, error) {
	var all cdiv1.DataVolumeList
	if err := r.Reader.List(ctx, &all); err != nil {
		return 0, fmt.Errorf("list DataVolumes: %w", err)
	}
	var n int
	for _, dv := range all.Items {
		if dv.Status.Phase == cdiv1.ImportInProgress {
			n++
		}
	}
	return n, nil
}

// warnings reads the Warning events about the claim and its worker, the newest last.
func (r *Reconciler) warnings(ctx context.Context, claim *corev1.PersistentVolumeClaim, worker *corev1.Pod) ([]corev1.Event, error) {
	uids := []types.UID{claim.UID}
	if worker != nil {
		uids = append(uids, worker.UID)
	}
	var warnings []corev1.Event
	for _, uid := range uids {
		var list corev1.EventList
		if err := r.Reader.List(ctx, &list, client.InNamespace(claim.Namespace), client.MatchingFields{ByInvolvedUID: string(uid)}); err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		warnings = append(warnings, list.Items...)
	}
	slices.SortStableFunc(warnings, func(a, b corev1.Event) int { return lastSeen(a).Compare(lastSeen(b).Time) })
	return warnings, nil
}

// lastSeen is when an event happened last. The two event APIs keep that in different fields.
func lastSeen(e corev1.Event) metav1.Time {
	t := e.LastTimestamp
	if e.Series != nil {
		t = metav1.Time(e.Series.LastObservedTime)
	}
	return cmp.Or(t, metav1.Time(e.EventTime), e.CreationTimestamp)
}

// unfinished finds the DataVolumes that something may have been holding up, in the namespace of what has changed, or everywhere if
// that has none.
func (r *Reconciler) unfinished(ctx context.Context, changed client.Object) []reconcile.Request {
	var all cdiv1.DataVolumeList
	if err := r.Reader.List(ctx, &all, client.InNamespace(changed.GetNamespace())); err != nil {
		return nil // the cache is not there yet; once it is, every DataVolume is reconciled
	}
	slices.SortFunc(all.Items, populate.ByAge) // who came first is looked at first
	var requests []reconcile.Request
	for i := range all.Items {
		dv := &all.Items[i]
		if dv.Status.Phase != cdiv1.Succeeded && dv.Status.Phase != cdiv1.Failed {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(dv)})
		}
	}
	return requests
}

// concerned finds the DataVolume that an event about a claim or a worker concerns.
func (r *Reconciler) concerned(ctx context.Context, o client.Object) []reconcile.Request {
	about := o.(*corev1.Event).InvolvedObject
	key := types.NamespacedName{Namespace: about.Namespace, Name: about.Name}
	switch about.Kind {
	case "PersistentVolumeClaim":
		return []reconcile.Request{{NamespacedName: key}}
	case "Pod":
		worker, err := kube.Find[corev1.Pod](ctx, r.Reader, key)
		if err != nil || worker == nil {
			return nil
		}
		if owner := metav1.GetControllerOf(worker); owner != nil && owner.Kind == "DataVolume" {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: key.Namespace, Name: owner.Name}}}
		}
	}
	return nil
}
