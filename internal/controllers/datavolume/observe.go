package datavolume

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// observe reads everything that the decision about a DataVolume needs. The DataVolume is nil when there is none.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (populate.World, error) {
	w := populate.World{Settings: r.Settings, Deadlines: r.Deadlines, Images: r.Images}
	var err error
	if w.DataVolume, err = kube.Find[cdiv1.DataVolume](ctx, r.Reader, key); err != nil || w.DataVolume == nil {
		return w, err
	}
	if w.Cluster, w.Settings.Placement, err = kube.Cluster(ctx, r.Reader); err != nil {
		return w, err
	}
	if w.Claim, err = kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, key); err != nil {
		return w, err
	}
	if err := r.observeClone(ctx, &w); err != nil {
		return w, err
	}
	if w.Claim == nil {
		if w.Line, err = r.line(ctx, w.DataVolume); err != nil {
			return w, err
		}
		w.Static, err = r.static(ctx, w.DataVolume)
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
	if w.Warnings, err = kube.Warnings(ctx, r.Reader, w.Claim, w.Worker); err != nil {
		return w, err
	}
	err = r.observeWork(ctx, &w)
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

// observeWork reads what the worker is doing.
func (r *Reconciler) observeWork(ctx context.Context, w *populate.World) (err error) {
	if w.Worker == nil {
		return nil
	}
	if w.Node, err = kube.Find[corev1.Node](ctx, r.Reader, types.NamespacedName{Name: w.Worker.Spec.NodeName}); err != nil {
		return err
	}
	if w.WantsLog() {
		w.Log = r.Log(ctx, w.Worker)
		w.Active, err = r.active(ctx)
	}
	return err
}

// static finds the volume that is reserved for a DataVolume's claim, if the DataVolume asks to look for one.
func (r *Reconciler) static(ctx context.Context, dv *cdiv1.DataVolume) (*corev1.PersistentVolume, error) {
	if _, asked := dv.Annotations[cdi.CheckStaticVolume]; !asked {
		return nil, nil
	}
	var volumes corev1.PersistentVolumeList
	if err := r.Reader.List(ctx, &volumes); err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	return populate.StaticVolume(dv, volumes.Items), nil
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
