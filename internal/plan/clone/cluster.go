package clone

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// Cluster is what was seen of a cluster. What doesn't exist is not in it, and the order of objects means nothing.
type Cluster struct {
	Disks            []v1alpha1.VMDisk
	DataVolumes      []cdiv1.DataVolume
	DataSources      []cdiv1.DataSource
	CDIs             []cdiv1.CDI
	Configs          []cdiv1.CDIConfig
	Profiles         []cdiv1.StorageProfile
	Claims           []corev1.PersistentVolumeClaim
	Volumes          []corev1.PersistentVolume
	Pods             []corev1.Pod
	Nodes            []corev1.Node
	Quotas           []corev1.ResourceQuota
	Classes          []storagev1.StorageClass
	Drivers          []storagev1.CSIDriver
	DriverNodes      []storagev1.CSINode
	Capacities       []storagev1.CSIStorageCapacity
	SnapshotClasses  []VolumeSnapshotClass
	Snapshots        []VolumeSnapshot
	SnapshotContents []VolumeSnapshotContent
}

// VolumeSnapshotClass is what is read of one.
type VolumeSnapshotClass struct {
	metav1.ObjectMeta `json:"metadata"`
	Driver            string `json:"driver"`
}

// VolumeSnapshot is what is read of one.
type VolumeSnapshot struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Content     string             `json:"boundVolumeSnapshotContentName"`
		RestoreSize *resource.Quantity `json:"restoreSize"`
		ReadyToUse  bool               `json:"readyToUse"`
		Error       *SnapshotError     `json:"error"`
	} `json:"status"`
}

// SnapshotError is the driver's last complaint about a snapshot.
type SnapshotError struct {
	Message string `json:"message"`
}

// VolumeSnapshotContent is what is read of one.
type VolumeSnapshotContent struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Driver           string                       `json:"driver"`
		SourceVolumeMode *corev1.PersistentVolumeMode `json:"sourceVolumeMode"`
	} `json:"spec"`
}

// SnapshotClass is the kind of VolumeSnapshotClasses. A cluster need not serve it.
func SnapshotClass() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotClass"}
}

// Kinds are the kinds that a plan reads, in the versions that a cluster serves.
func Kinds() []schema.GroupVersionKind {
	core, snapshots := cdiv1.SchemeGroupVersion, SnapshotClass().GroupVersion()
	return []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("VMDisk"),
		core.WithKind("DataVolume"), core.WithKind("DataSource"), core.WithKind("CDI"), core.WithKind("CDIConfig"), core.WithKind("StorageProfile"),
		corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), corev1.SchemeGroupVersion.WithKind("PersistentVolume"),
		corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("ResourceQuota"),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"), storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
		storagev1.SchemeGroupVersion.WithKind("CSINode"), storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"),
		SnapshotClass(), snapshots.WithKind("VolumeSnapshot"), snapshots.WithKind("VolumeSnapshotContent"),
	}
}

// Add puts an object to what was seen. It says whether a plan reads objects of that kind; of others nothing is looked at.
func (c *Cluster) Add(object map[string]any) (read bool, err error) {
	kind, _ := object["kind"].(string) // an object without a kind is of none that is read
	into, ok := map[string]func() error{
		"VMDisk":                func() error { return add(&c.Disks, object) },
		"DataVolume":            func() error { return add(&c.DataVolumes, object) },
		"DataSource":            func() error { return add(&c.DataSources, object) },
		"CDI":                   func() error { return add(&c.CDIs, object) },
		"CDIConfig":             func() error { return add(&c.Configs, object) },
		"StorageProfile":        func() error { return add(&c.Profiles, object) },
		"PersistentVolumeClaim": func() error { return add(&c.Claims, object) },
		"PersistentVolume":      func() error { return add(&c.Volumes, object) },
		"Pod":                   func() error { return add(&c.Pods, object) },
		"Node":                  func() error { return add(&c.Nodes, object) },
		"ResourceQuota":         func() error { return add(&c.Quotas, object) },
		"StorageClass":          func() error { return add(&c.Classes, object) },
		"CSIDriver":             func() error { return add(&c.Drivers, object) },
		"CSINode":               func() error { return add(&c.DriverNodes, object) },
		"CSIStorageCapacity":    func() error { return add(&c.Capacities, object) },
		"VolumeSnapshotClass":   func() error { return add(&c.SnapshotClasses, object) },
		"VolumeSnapshot":        func() error { return add(&c.Snapshots, object) },
		"VolumeSnapshotContent": func() error { return add(&c.SnapshotContents, object) },
	}[kind]
	if !ok {
		return false, nil
	}
	if err := into(); err != nil {
		return true, fmt.Errorf("read %s %v: %w", kind, nameIn(object), err)
	}
	return true, nil
}

func add[T any](to *[]T, object map[string]any) error {
	var o T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &o); err != nil {
		return err
	}
	*to = append(*to, o)
	return nil
}

func nameIn(object map[string]any) any {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		return metadata["name"]
	}
	return nil
}

// named is a pointer to the object that is called so; nil: there is none.
func named[T any](objects []T, meta func(*T) *metav1.ObjectMeta, namespace, name string) *T {
	i := slices.IndexFunc(objects, func(o T) bool { m := meta(&o); return m.Namespace == namespace && m.Name == name })
	if i < 0 {
		return nil
	}
	return &objects[i]
}

func (c Cluster) claim(namespace, name string) *corev1.PersistentVolumeClaim {
	return named(c.Claims, func(o *corev1.PersistentVolumeClaim) *metav1.ObjectMeta { return &o.ObjectMeta }, namespace, name)
}

func (c Cluster) volume(name string) *corev1.PersistentVolume {
	return named(c.Volumes, func(o *corev1.PersistentVolume) *metav1.ObjectMeta { return &o.ObjectMeta }, "", name)
}

func (c Cluster) class(name string) *storagev1.StorageClass {
	return named(c.Classes, func(o *storagev1.StorageClass) *metav1.ObjectMeta { return &o.ObjectMeta }, "", name)
}

func (c Cluster) profile(name string) *cdiv1.StorageProfile {
	return named(c.Profiles, func(o *cdiv1.StorageProfile) *metav1.ObjectMeta { return &o.ObjectMeta }, "", name)
}

func (c Cluster) node(name string) *corev1.Node {
	return named(c.Nodes, func(o *corev1.Node) *metav1.ObjectMeta { return &o.ObjectMeta }, "", name)
}

func (c Cluster) dataVolume(namespace, name string) *cdiv1.DataVolume {
	return named(c.DataVolumes, func(o *cdiv1.DataVolume) *metav1.ObjectMeta { return &o.ObjectMeta }, namespace, name)
}

func (c Cluster) driver(name string) *storagev1.CSIDriver {
	return named(c.Drivers, func(o *storagev1.CSIDriver) *metav1.ObjectMeta { return &o.ObjectMeta }, "", name)
}

func (c Cluster) snapshotClass(name string) *VolumeSnapshotClass {
	return named(c.SnapshotClasses, func(o *VolumeSnapshotClass) *metav1.ObjectMeta { return &o.ObjectMeta }, "", name)
}

// dataSource is what a DataSource stands for. One that stands for nothing yet is a claim that doesn't exist, of its own name.
func (c Cluster) dataSource(namespace, name string) Source {
	ds := named(c.DataSources, func(o *cdiv1.DataSource) *metav1.ObjectMeta { return &o.ObjectMeta }, namespace, name)
	switch {
	case ds != nil && ds.Spec.Source.PVC != nil:
		return Source{claimSource, ds.Spec.Source.PVC.Namespace, ds.Spec.Source.PVC.Name}
	case ds != nil && ds.Spec.Source.Snapshot != nil:
		return Source{snapshotSource, ds.Spec.Source.Snapshot.Namespace, ds.Spec.Source.Snapshot.Name}
	default:
		return Source{claimSource, namespace, name}
	}
}

// volumes is what claims are judged against.
func (c Cluster) volumes() volume.Cluster {
	return volume.Cluster{
		Classes: c.Classes, Profiles: c.Profiles,
		Config: named(c.Configs, func(o *cdiv1.CDIConfig) *metav1.ObjectMeta { return &o.ObjectMeta }, "", cdi.ConfigName),
	}
}

// Namespaced says whether objects of a kind that a plan reads are in namespaces.
func Namespaced(kind any) bool {
	switch kind {
	case "VMDisk", "DataVolume", "DataSource", "PersistentVolumeClaim", "Pod", "ResourceQuota", "VolumeSnapshot", "CSIStorageCapacity":
		return true
	default:
		return false
	}
}
