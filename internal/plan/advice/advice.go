// Package advice is what the person who creates a VMDisk should know at once, and would otherwise find out late: what the disk will wait for,
// what can't be changed afterwards, what is less safe than it looks. It advises and never refuses: each sentence is a warning that kubectl prints.
// It is pure, and holds whichever engine makes the disk.
package advice

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/plan/profile"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// World is what was seen of the cluster when a disk was created. What doesn't exist is nil.
type World struct {
	Disk v1alpha1.VMDisk
	// DataVolume and Claim have the disk's name. None of them can be this disk's yet.
	DataVolume *cdiv1.DataVolume
	Claim      *corev1.PersistentVolumeClaim
	// Volumes are the classes, their profiles and the configuration in force.
	Volumes volume.Cluster
	Nodes   []corev1.Node
	// DefaultClass is the class of a disk that names none; empty: the cluster's own default.
	DefaultClass string
}

// For is the advice for a new disk, a sentence each. The API server cuts a warning of more than 256 characters when there are many.
func For(w World) []string {
	if text := w.taken(); text != "" {
		return []string{text} // it may never come to the rest
	}
	var all []string
	for _, text := range []string{w.defaulted(), w.absent(), w.pinned(), w.enlarged(), w.readable(), w.forgeable()} {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// taken: the disk's name belongs to somebody else. What an earlier disk of the name left goes by itself, and is not worth a word.
func (w World) taken() string {
	const waits = " exists already and isn't this disk's: the disk waits until it is gone. Delete it, or create the disk under another name"
	name := w.Disk.Name
	switch {
	case w.DataVolume != nil && !left(w.DataVolume, "VMDisk"):
		return "DataVolume " + name + waits
	case w.Claim == nil || left(w.Claim, "DataVolume"):
		return ""
	case populate.Adoptable(&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}, w.Claim):
		return fmt.Sprintf("PersistentVolumeClaim %s exists already and is marked as filled for this disk: the disk takes it over as it is, whatever its spec says", name)
	default:
		return "PersistentVolumeClaim " + name + waits
	}
}

// left says whether an object is on its way out: it is being deleted, or its owner was the object of the same name and of a kind of which
// there is none any more.
func left(o metav1.Object, owner string) bool {
	by := metav1.GetControllerOf(o)
	return o.GetDeletionTimestamp() != nil || by != nil && by.Kind == owner && by.Name == o.GetName()
}

// named is the class that the disk or the platform names.
func (w World) named() string { return cmp.Or(w.Disk.Spec.StorageClass, w.DefaultClass) }

// class is the class that the disk gets; nil: none yet.
func (w World) class() *storagev1.StorageClass {
	if w.named() == "" {
		return volume.VirtDefault(w.Volumes.Classes)
	}
	for i := range w.Volumes.Classes {
		if w.Volumes.Classes[i].Name == w.named() {
			return &w.Volumes.Classes[i]
		}
	}
	return nil
}

// defaulted: the disk leaves its class to the cluster, and the cluster doesn't say which, or says several.
func (w World) defaulted() string {
	if w.named() != "" {
		return ""
	}
	class := w.class()
	if class == nil {
		return fmt.Sprintf("the disk names no storageClass and none is the cluster's default: the disk waits until one is. There are %s. "+
			"To name one, delete the disk and create it again", volume.NamesOf(w.Volumes.Classes))
	}
	key := cdi.DefaultClass
	if class.Annotations[cdi.DefaultVirtClass] == "true" {
		key = cdi.DefaultVirtClass
	}
	marked := volume.Marked(w.Volumes.Classes, key)
	if len(marked) < 2 {
		return ""
	}
	return fmt.Sprintf("the disk names no storageClass, and %s are all marked as the default: it gets %s. storageClass can't be changed later",
		strings.Join(marked, ", "), class.Name)
}

// absent: the class that is named isn't there.
func (w World) absent() string {
	if w.named() == "" || w.class() != nil {
		return ""
	}
	from := ""
	if w.Disk.Spec.StorageClass == "" {
		from = ", the controller's default for disks,"
	}
	return fmt.Sprintf("StorageClass %s%s does not exist yet: the disk waits for it. There are %s. To name another one, delete the disk and create it again",
		w.named(), from, volume.NamesOf(w.Volumes.Classes))
}

// pinned: the volume can't be used from everywhere, and where it is made is decided before anybody knows where the machine may run.
func (w World) pinned() string {
	class := w.class()
	if class == nil {
		return ""
	}
	where := profile.Pinned(class, w.Nodes)
	switch waits := (volume.Volume{Class: class}).WaitsForConsumer(); {
	case where == "":
		return ""
	case !waits:
		return fmt.Sprintf("a volume of StorageClass %s can be used %s only, and the class picks the place without asking where the virtual machine may run: "+
			"one that may not run there won't start. A class with volumeBindingMode: WaitForFirstConsumer asks", class.Name, where)
	case w.Disk.Spec.Immediate() && w.Disk.Spec.Placement.IsEmpty(): // else its owner has picked the place
		return fmt.Sprintf("a volume of StorageClass %s can be used %s only, and with bindImmediately the place is picked before the virtual machine is known: "+
			"one that may not run there won't start. bindImmediately: false avoids that", class.Name, where)
	default:
		return ""
	}
}

// enlarged: the class's smallest volume is larger than the disk. What can't be rendered has no volume, and its conditions say why.
func (w World) enlarged() string {
	class, size := w.class(), w.Disk.Spec.Storage
	if class == nil || size == nil {
		return ""
	}
	spec := cdiv1.DataVolumeSpec{Storage: &cdiv1.StorageSpec{StorageClassName: &class.Name}}
	spec.Storage.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *size}
	v, err := volume.Of(spec, w.Volumes)
	if err != nil || v.LeastBytes == 0 {
		return ""
	}
	return fmt.Sprintf("StorageClass %s makes no volume smaller than %s: for a disk of %s its claim asks for that, and a quota counts it",
		class.Name, resource.NewQuantity(v.LeastBytes, resource.BinarySI), size)
}

// readable: credentials go over the network as they are.
func (w World) readable() string {
	http := w.http()
	if !strings.HasPrefix(http.URL, "http://") {
		return ""
	}
	var secrets []string
	if http.SecretRef != "" {
		secrets = append(secrets, "secretRef")
	}
	if len(http.SecretExtraHeaders) > 0 {
		secrets = append(secrets, "secretExtraHeaders")
	}
	if len(secrets) == 0 {
		return ""
	}
	return fmt.Sprintf("source.http.url is http, so what %s names can be read on its way to the server: use https", strings.Join(secrets, " and "))
}

// forgeable: the checksum finds damage only.
func (w World) forgeable() string {
	kind, _, _ := strings.Cut(w.http().Checksum, ":")
	if kind != "md5" && kind != "sha1" {
		return ""
	}
	return fmt.Sprintf("source.http.checksum is %s, which finds damage, but not an image that was made to deceive: use sha256 or sha512", kind)
}

// http is the disk's source behind a URL; an empty one where it has none.
func (w World) http() v1alpha1.HTTPSource {
	if s := w.Disk.Spec.Source; s != nil && s.HTTP != nil {
		return *s.HTTP
	}
	return v1alpha1.HTTPSource{}
}
