package clone

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
)

// sourceKind is what a disk is made from.
type sourceKind string

const (
	noSource       sourceKind = ""
	claimSource    sourceKind = "PersistentVolumeClaim"
	snapshotSource sourceKind = "VolumeSnapshot"
)

// Request is what is asked for.
type Request struct {
	Kind, Namespace, Name string
	// Image is the name of a golden image; empty: the source is none.
	Image string
	// DataSource is what the DataVolume names in the source's place, as namespace/name; empty: it names the source itself.
	DataSource string
	// Source is the claim or the snapshot that the disk is made from.
	Source Source
	// Spec is the disk's DataVolume, without its source. A size of none is the source's.
	Spec cdiv1.DataVolumeSpec
	// BindImmediately: the disk does not wait for its first consumer.
	BindImmediately bool
	// plain: the DataVolume's annotation forbids every way but filling the disk's claim itself.
	plain bool
	// AsNew plans the disk as if neither its DataVolume nor its claim existed.
	AsNew bool
}

// Source names a claim or a snapshot.
type Source struct {
	kind            sourceKind
	Namespace, Name string
}

// Images tells the claims of golden images: that of an image's name behind the prefix, in the namespace. Images are public by design: whoever may make
// disks may make them from any.
type Images struct{ Namespace, Prefix string }

// Has says whether a source is a golden image.
func (i Images) Has(s Source) bool {
	return s.IsClaim() && i.Namespace != "" && s.Namespace == i.Namespace && strings.HasPrefix(s.Name, i.Prefix)
}

// IsClaim says whether the source is a claim.
func (s Source) IsClaim() bool { return s.kind == claimSource }

// IsZero says whether there is no source: the disk is not made from another volume.
func (s Source) IsZero() bool { return s.kind == noSource }

func (s Source) String() string { return string(s.kind) + " " + s.Namespace + "/" + s.Name }

func (r Request) String() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// OfDisk is what a VMDisk asks for.
func OfDisk(disk v1alpha1.VMDisk, cluster Cluster, options Options) Request {
	r := Request{Kind: "VMDisk", Namespace: disk.Namespace, Name: disk.Name}
	r.BindImmediately = disk.Spec.Immediate()
	r.Spec.Storage = &cdiv1.StorageSpec{}
	if disk.Spec.Storage != nil {
		r.Spec.Storage.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *disk.Spec.Storage}
	}
	if class := cmp.Or(disk.Spec.StorageClass, options.DefaultClass); class != "" {
		r.Spec.Storage.StorageClassName = &class
	}
	switch s := disk.Spec.Source; {
	case s == nil:
	case s.Image != nil:
		r.Image = s.Image.Name
		r.Source = Source{claimSource, options.ImageNamespace, options.ImagePrefix + s.Image.Name}
	case s.Disk != nil:
		r.Source = Source{claimSource, disk.Namespace, cluster.diskClaim(disk.Namespace, s.Disk.Name)}
	}
	return r
}

// ClaimPrefix is what Cozystack puts before the names of disks in those of their claims.
const ClaimPrefix = "vm-disk-"

// diskClaim is the claim of a VMDisk: that of its name, or, where there is none, with the prefix.
func (c Cluster) diskClaim(namespace, name string) string {
	if c.claim(namespace, name) == nil && c.claim(namespace, ClaimPrefix+name) != nil {
		return ClaimPrefix + name
	}
	return name
}

// OfDataVolume is what a DataVolume asks for.
func OfDataVolume(dv cdiv1.DataVolume, cluster Cluster) Request {
	r := Request{Kind: "DataVolume", Namespace: dv.Namespace, Name: dv.Name, Spec: *dv.Spec.DeepCopy()}
	r.Spec.Source, r.Spec.SourceRef = nil, nil
	_, r.BindImmediately = dv.Annotations[cdi.BindImmediate]
	r.plain = dv.Annotations[cdi.UsePopulator] == "false"
	switch s, ref := dv.Spec.Source, dv.Spec.SourceRef; {
	case s != nil && s.PVC != nil:
		r.Source = Source{claimSource, s.PVC.Namespace, s.PVC.Name}
	case s != nil && s.Snapshot != nil:
		r.Source = Source{snapshotSource, s.Snapshot.Namespace, s.Snapshot.Name}
	case ref != nil && ref.Kind == cdiv1.DataVolumeDataSource:
		namespace := dv.Namespace
		if ref.Namespace != nil {
			namespace = *ref.Namespace
		}
		r.DataSource = namespace + "/" + ref.Name
		r.Source = cluster.dataSource(namespace, ref.Name)
	}
	r.Source.Namespace = cmp.Or(r.Source.Namespace, dv.Namespace)
	return r
}

// className is the class that is named; empty: none.
func (r Request) className() string {
	switch {
	case r.Spec.Storage != nil && r.Spec.Storage.StorageClassName != nil:
		return *r.Spec.Storage.StorageClassName
	case r.Spec.PVC != nil && r.Spec.PVC.StorageClassName != nil:
		return *r.Spec.PVC.StorageClassName
	default:
		return ""
	}
}

// sized is the spec with a class, and with a size where it has none.
func (r Request) sized(class string, bytes int64) cdiv1.DataVolumeSpec {
	spec := *r.Spec.DeepCopy()
	size := corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}
	switch {
	case spec.PVC != nil:
		spec.PVC.StorageClassName = &class
		if len(spec.PVC.Resources.Requests) == 0 {
			spec.PVC.Resources.Requests = size
		}
	case spec.Storage != nil:
		spec.Storage.StorageClassName = &class
		if len(spec.Storage.Resources.Requests) == 0 {
			spec.Storage.Resources.Requests = size
		}
	}
	return spec
}

// bytes is the size that is asked for; 0: the source's.
func (r Request) bytes() int64 {
	var requests corev1.ResourceList
	switch {
	case r.Spec.PVC != nil:
		requests = r.Spec.PVC.Resources.Requests
	case r.Spec.Storage != nil:
		requests = r.Spec.Storage.Resources.Requests
	}
	q := requests[corev1.ResourceStorage]
	return q.Value()
}
