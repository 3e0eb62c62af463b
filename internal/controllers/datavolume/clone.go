package datavolume

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

// observeClone reads what a disk is made from, until that is done.
func (r *Reconciler) observeClone(ctx context.Context, w *populate.World) error {
	done := w.DataVolume.Status.Phase == cdiv1.Succeeded && w.Claim != nil // one whose claim is gone is made again
	if !populate.IsClone(w.DataVolume) || done {
		return nil
	}
	request, err := r.request(ctx, w.DataVolume)
	if err != nil {
		return err
	}
	options := clone.Options{SelectedNode: w.DataVolume.Annotations[v1alpha1.SelectedNodeAnnotation]}
	cluster, err := kube.Origin(ctx, r.Reader, request, &options)
	if err != nil {
		return err
	}
	if err := r.users(ctx, &cluster, request.Source); err != nil {
		return err
	}
	seen := &populate.Clone{}
	if !options.NoSnapshotAPI {
		if seen.Snapshot, err = r.snapshots(ctx, &cluster, request, w.DataVolume); err != nil {
			return err
		}
	}
	seen.Plan = clone.Of(request, cluster, options)
	for i := range cluster.Claims {
		if c := &cluster.Claims[i]; request.Source.IsClaim() && c.Namespace == request.Source.Namespace && c.Name == request.Source.Name {
			seen.Source = c
		}
	}
	w.Clone = seen
	return r.observeAway(ctx, w, request)
}

// observeAway reads what is made in the source's namespace, where that is another one.
func (r *Reconciler) observeAway(ctx context.Context, w *populate.World, request clone.Request) (err error) {
	if w.Claim == nil || !populate.Handed(w.Claim) || request.Source.IsZero() {
		return nil
	}
	a := &populate.Away{Namespace: request.Source.Namespace}
	key := client.ObjectKey{Namespace: a.Namespace, Name: populate.AwayName(w.Claim.UID)}
	if a.DataVolume, err = kube.Find[cdiv1.DataVolume](ctx, r.Reader, key); err != nil {
		return err
	}
	if a.Claim, err = kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, key); err != nil {
		return err
	}
	if a.Volume, err = kube.Moving(ctx, r.Reader, w.Claim.UID, a.Claim, w.Claim); err != nil {
		return err
	}
	if class := w.Claim.Spec.StorageClassName; class != nil {
		a.Class, err = kube.Find[storagev1.StorageClass](ctx, r.Reader, client.ObjectKey{Name: *class})
	}
	w.Away = a
	return err
}

// ofAway finds the disk that a DataVolume in its source's namespace makes a volume for.
func ofAway(_ context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[v1alpha1.ClonesLabel] == "" {
		return nil
	}
	return requestOf(o.GetAnnotations()[v1alpha1.TargetAnnotation])
}

// ofVolume finds the disk that a volume is on its way to.
func ofVolume(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := rebind.MarkOf(o.(*corev1.PersistentVolume))
	if !ok {
		return nil
	}
	return requestOf(m.Namespace + "/" + m.Name)
}

func requestOf(target string) []reconcile.Request {
	namespace, name, ok := strings.Cut(target, "/")
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// request is what a DataVolume asks for, as if there were nothing of it: what waits for a consumer is decided elsewhere.
func (r *Reconciler) request(ctx context.Context, dv *cdiv1.DataVolume) (clone.Request, error) {
	var known clone.Cluster
	if ref := dv.Spec.SourceRef; ref != nil {
		namespace := dv.Namespace
		if ref.Namespace != nil && *ref.Namespace != "" {
			namespace = *ref.Namespace
		}
		source, err := kube.Find[cdiv1.DataSource](ctx, r.Reader, client.ObjectKey{Namespace: namespace, Name: ref.Name})
		if err != nil {
			return clone.Request{}, err
		}
		if source != nil {
			known.DataSources = append(known.DataSources, *source)
		}
	}
	request := clone.OfDataVolume(*dv, known)
	request.AsNew, request.BindImmediately = true, true
	return request, nil
}

// users reads the pods that may use the source. Most pods are nothing that is kept in memory.
func (r *Reconciler) users(ctx context.Context, c *clone.Cluster, source clone.Source) error {
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(source.Namespace)); err != nil {
		return fmt.Errorf("list the pods that may use %s: %w", source, err)
	}
	c.Pods = pods.Items
	return nil
}

// snapshots reads the snapshot that is the source, and the one that was made for the disk.
func (r *Reconciler) snapshots(ctx context.Context, c *clone.Cluster, request clone.Request, dv *cdiv1.DataVolume) (*clone.VolumeSnapshot, error) {
	if !request.Source.IsClaim() {
		return nil, kube.AddSnapshot(ctx, r.Live, c, request.Source.Namespace, request.Source.Name)
	}
	var made clone.Cluster
	err := kube.AddSnapshot(ctx, r.Live, &made, dv.Namespace, populate.SnapshotName(dv))
	if err != nil || len(made.Snapshots) == 0 {
		return nil, err
	}
	return &made.Snapshots[0], nil
}

// cloners finds the disks of a namespace that are not done, and are made from a claim, a DataVolume or a DataSource.
func (r *Reconciler) cloners(ctx context.Context, changed client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, request := range r.unfinished(ctx, changed) {
		dv, err := kube.Find[cdiv1.DataVolume](ctx, r.Reader, request.NamespacedName)
		if err != nil || dv == nil {
			continue
		}
		s, ref := dv.Spec.Source, dv.Spec.SourceRef
		if ref != nil || s != nil && s.PVC != nil && s.PVC.Name == changed.GetName() {
			requests = append(requests, request)
		}
	}
	return requests
}
