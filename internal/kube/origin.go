package kube

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/plan/clone"
)

// Origin reads what a plan rests on for a disk that is made from another volume: the source, the disk itself, and what the driver of both can do.
// Of pods it reads none. Where the cluster serves no snapshots, the options say so afterwards.
func Origin(ctx context.Context, from client.Reader, r clone.Request, o *clone.Options) (clone.Cluster, error) {
	var c clone.Cluster
	namespace, name := r.Source.Namespace, r.Source.Name
	source, err := read(ctx, from, &c.Claims, namespace, name)
	err = errors.Join(err,
		add[cdiv1.DataVolume](ctx, from, &c.DataVolumes, namespace, name),
		add[corev1.PersistentVolumeClaim](ctx, from, &c.Claims, r.Namespace, r.Name),
		add[cdiv1.DataVolume](ctx, from, &c.DataVolumes, r.Namespace, r.Name),
		list(ctx, from, &cdiv1.CDIList{}, func(l *cdiv1.CDIList) { c.CDIs = l.Items }),
		list(ctx, from, &cdiv1.CDIConfigList{}, func(l *cdiv1.CDIConfigList) { c.Configs = l.Items }),
		list(ctx, from, &cdiv1.StorageProfileList{}, func(l *cdiv1.StorageProfileList) { c.Profiles = l.Items }),
		list(ctx, from, &storagev1.StorageClassList{}, func(l *storagev1.StorageClassList) { c.Classes = l.Items }),
		list(ctx, from, &storagev1.CSIDriverList{}, func(l *storagev1.CSIDriverList) { c.Drivers = l.Items }),
		list(ctx, from, &storagev1.CSINodeList{}, func(l *storagev1.CSINodeList) { c.DriverNodes = l.Items }),
		list(ctx, from, &corev1.NodeList{}, func(l *corev1.NodeList) { c.Nodes = l.Items }),
		list(ctx, from, &corev1.ResourceQuotaList{}, func(l *corev1.ResourceQuotaList) { c.Quotas = l.Items }, client.InNamespace(namespace)),
		snapshotClasses(ctx, from, &c, o),
	)
	if source != nil && source.Spec.VolumeName != "" {
		err = errors.Join(err, add[corev1.PersistentVolume](ctx, from, &c.Volumes, "", source.Spec.VolumeName))
	}
	return c, err
}

// snapshotClasses reads the VolumeSnapshotClasses, which a cluster may not serve.
func snapshotClasses(ctx context.Context, from client.Reader, c *clone.Cluster, o *clone.Options) error {
	classes := &unstructured.UnstructuredList{}
	kind := clone.SnapshotClass()
	classes.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := from.List(ctx, classes)
	switch {
	case meta.IsNoMatchError(err):
		o.NoSnapshotAPI = true
		return nil
	case err != nil:
		return fmt.Errorf("list VolumeSnapshotClasses: %w", err)
	}
	for _, class := range classes.Items {
		class.SetGroupVersionKind(kind)
		if _, err := c.Add(class.Object); err != nil {
			return err
		}
	}
	return nil
}

// AddSnapshot reads a VolumeSnapshot and its content and puts them to what was seen, if they exist. They aren't kept in memory, since a cluster need
// not serve them.
func AddSnapshot(ctx context.Context, from client.Reader, c *clone.Cluster, namespace, name string) error {
	snapshot, err := addUnstructured(ctx, from, c, "VolumeSnapshot", namespace, name)
	if err != nil || snapshot == nil {
		return err
	}
	content, _, err := unstructured.NestedString(snapshot.Object, "status", "boundVolumeSnapshotContentName")
	if err != nil || content == "" {
		return err
	}
	_, err = addUnstructured(ctx, from, c, "VolumeSnapshotContent", "", content)
	return err
}

func addUnstructured(ctx context.Context, from client.Reader, c *clone.Cluster, kind, namespace, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(clone.SnapshotClass().GroupVersion().WithKind(kind))
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) {
		if err != nil {
			return nil, nil
		}
		_, err = c.Add(o.Object)
		return o, err
	}
	return nil, fmt.Errorf("read %s %s: %w", kind, name, err)
}

// read reads an object and puts it to those that were seen; nil: there is none.
func read[T any, P Object[T]](ctx context.Context, from client.Reader, to *[]T, namespace, name string) (P, error) {
	o, err := Find[T, P](ctx, from, client.ObjectKey{Namespace: namespace, Name: name})
	if o != nil {
		*to = append(*to, *o)
	}
	return o, err
}

func add[T any, P Object[T]](ctx context.Context, from client.Reader, to *[]T, namespace, name string) error {
	_, err := read[T, P](ctx, from, to, namespace, name)
	return err
}

func list[L client.ObjectList](ctx context.Context, from client.Reader, into L, take func(L), options ...client.ListOption) error {
	if err := from.List(ctx, into, options...); err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	take(into)
	return nil
}
