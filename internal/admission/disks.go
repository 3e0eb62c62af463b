package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

// disks answers for VMDisks that are created.
type disks struct {
	reader  client.Reader
	decoder admission.Decoder
	options clone.Options
}

// Handle refuses a disk, lets it in with a warning, or lets it in, as the plan for it says.
func (d *disks) Handle(ctx context.Context, request admission.Request) admission.Response {
	var disk v1alpha1.VMDisk
	if err := d.decoder.Decode(request, &disk); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the VMDisk: %w", err))
	}
	disk.Namespace = request.Namespace
	options := d.options
	wanted := clone.OfDisk(disk, clone.Cluster{}, options)
	if wanted.Image == "" {
		return admission.Allowed("")
	}
	cluster, err := d.observe(ctx, wanted, &options)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("look up what VMDisk %s is made from: %w: try again", disk.Name, err))
	}
	answer := clone.Of(wanted, cluster, options).Admission(options.Policy)
	switch {
	case answer.Refused:
		return admission.Denied(answer.Message)
	case answer.Message != "":
		return admission.Allowed("").WithWarnings(answer.Message)
	default:
		return admission.Allowed("")
	}
}

// observe reads what a plan for a disk rests on. Of pods it reads none: who uses the image is not known, and whether the disk has to wait for
// that is no matter of admission.
func (d *disks) observe(ctx context.Context, r clone.Request, o *clone.Options) (clone.Cluster, error) {
	var c clone.Cluster
	images := r.Source.Namespace
	golden, err := get(ctx, d.reader, &c.Claims, images, r.Source.Name)
	err = errors.Join(err,
		add[cdiv1.DataVolume](ctx, d.reader, &c.DataVolumes, images, r.Source.Name),
		add[corev1.PersistentVolumeClaim](ctx, d.reader, &c.Claims, r.Namespace, r.Name),
		add[cdiv1.DataVolume](ctx, d.reader, &c.DataVolumes, r.Namespace, r.Name),
		list(ctx, d.reader, &cdiv1.CDIList{}, func(l *cdiv1.CDIList) { c.CDIs = l.Items }),
		list(ctx, d.reader, &cdiv1.CDIConfigList{}, func(l *cdiv1.CDIConfigList) { c.Configs = l.Items }),
		list(ctx, d.reader, &cdiv1.StorageProfileList{}, func(l *cdiv1.StorageProfileList) { c.Profiles = l.Items }),
		list(ctx, d.reader, &storagev1.StorageClassList{}, func(l *storagev1.StorageClassList) { c.Classes = l.Items }),
		list(ctx, d.reader, &storagev1.CSIDriverList{}, func(l *storagev1.CSIDriverList) { c.Drivers = l.Items }),
		list(ctx, d.reader, &storagev1.CSINodeList{}, func(l *storagev1.CSINodeList) { c.DriverNodes = l.Items }),
		list(ctx, d.reader, &corev1.NodeList{}, func(l *corev1.NodeList) { c.Nodes = l.Items }),
		list(ctx, d.reader, &corev1.ResourceQuotaList{}, func(l *corev1.ResourceQuotaList) { c.Quotas = l.Items }, client.InNamespace(images)),
		d.snapshotClasses(ctx, &c, o),
	)
	if golden != nil && golden.Spec.VolumeName != "" {
		err = errors.Join(err, add[corev1.PersistentVolume](ctx, d.reader, &c.Volumes, "", golden.Spec.VolumeName))
	}
	return c, err
}

// snapshotClasses reads the VolumeSnapshotClasses, which a cluster may not serve.
func (d *disks) snapshotClasses(ctx context.Context, c *clone.Cluster, o *clone.Options) error {
	classes := &unstructured.UnstructuredList{}
	kind := clone.SnapshotClass()
	classes.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := d.reader.List(ctx, classes)
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

// get reads an object and puts it to those that were seen; nil: there is none.
func get[T any, P kube.Object[T]](ctx context.Context, from client.Reader, to *[]T, namespace, name string) (P, error) {
	o, err := kube.Find[T, P](ctx, from, client.ObjectKey{Namespace: namespace, Name: name})
	if o != nil {
		*to = append(*to, *o)
	}
	return o, err
}

func add[T any, P kube.Object[T]](ctx context.Context, from client.Reader, to *[]T, namespace, name string) error {
	_, err := get[T, P](ctx, from, to, namespace, name)
	return err
}

func list[L client.ObjectList](ctx context.Context, from client.Reader, into L, take func(L), options ...client.ListOption) error {
	if err := from.List(ctx, into, options...); err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	take(into)
	return nil
}
