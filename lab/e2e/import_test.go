//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/csi"
)

// The lab's classes (lab/cluster's manifests): whether their volumes become Block or Filesystem follows from vmdisk's profile
// of their driver, whether they are bound at once from the class.
const (
	blockNow   = "replicated"
	blockLater = "replicated-wffc"
	blockLocal = "local"
	filesNow   = "plain-immediate"
	filesLater = "plain"
)

// claimBytes is what the claim of a usual disk asks for in a class.
func claimBytes(class string) int64 {
	if class == filesNow || class == filesLater {
		q := inflated()
		return q.Value()
	}
	return diskBytes
}

func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// An image behind a URL becomes a disk in a quota of exactly its size and one claim, and never uses more.
func TestImport(t *testing.T) {
	t.Parallel()
	for _, class := range []string{blockNow, blockLater, blockLocal, filesNow, filesLater} {
		for _, file := range []string{qcow2File, rawFile} {
			t.Run(fmt.Sprintf("%s into %s", file, class), func(t *testing.T) {
				t.Parallel()
				n := newTenant(t)
				n.trustServer()
				n.reportsQuotas(quantity(claimBytes(class)))
				usage := n.measure()
				n.create(newDisk(class, &v1alpha1.HTTPSource{
					URL:           secureURL(file),
					Checksum:      "sha256:" + imageSum(t, file),
					CertConfigMap: authorityName,
				}))
				n.becomesReady("disk")
				n.holds("disk", diskBytes, reference(t), dataBytes(n))
				usage.wasExactly(n, claimBytes(class))
				n.leftAlone("disk")
				n.tellsOnce("disk")
			})
		}
	}
}

// leftAlone checks that nothing but the claim is left of an import: no worker, and a DataVolume at rest.
func (n *tenant) leftAlone(name string) {
	n.t.Helper()
	n.eventually(soon, "the worker is gone", func() error {
		if pods := list(n, &corev1.PodList{}); len(pods.Items) > 0 {
			return fmt.Errorf("pod %s is there", pods.Items[0].Name)
		}
		return nil
	})
	dv := get(n, name, &cdiv1.DataVolume{})
	for kind, want := range map[cdiv1.DataVolumeConditionType]corev1.ConditionStatus{
		cdiv1.DataVolumeBound: corev1.ConditionTrue, cdiv1.DataVolumeReady: corev1.ConditionTrue, cdiv1.DataVolumeRunning: corev1.ConditionFalse} {
		if c := condition(dv, kind); c.Status != want {
			n.t.Errorf("the DataVolume's condition %s is %+v, want %s", kind, c, want)
		}
	}
	if dv.Status.RestartCount != 0 {
		n.t.Errorf("the DataVolume's restartCount is %d without any fault", dv.Status.RestartCount)
	}
}

// A volume that somebody else has used before holds exactly the image in the end, and zeros where the image has none.
func TestImportIntoDirtyVolume(t *testing.T) {
	t.Parallel()
	for _, file := range []string{qcow2File, rawFile} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.create(newDisk(n.dirtyClass(), &v1alpha1.HTTPSource{URL: plainURL(file)}))
			n.becomesReady("disk")
			n.holds("disk", diskBytes, reference(t), dataBytes(n))
		})
	}
	t.Run("blank", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(newDisk(n.dirtyClass(), nil))
		n.becomesReady("disk")
		n.holds("disk", diskBytes, zeros, 0)
	})
}

// dirtyClass is a class whose fresh volumes are full of other bytes.
func (n *tenant) dirtyClass() string {
	n.t.Helper()
	name := n.name + "-dirty"
	n.makeClass(name, map[string]string{csi.ParameterDirty: "true"})
	return name
}

// makeClass makes a class like blockNow, with more parameters, until the test ends.
func (n *tenant) makeClass(name string, parameters map[string]string) {
	n.t.Helper()
	all := map[string]string{csi.ParameterKind: "replicated"}
	maps.Copy(all, parameters)
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name, Labels: map[string]string{tenantLabel: ""}},
		Provisioner:       "linstor.csi.linbit.com",
		Parameters:        all,
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}
	if err := n.Create(n.t.Context(), class); err != nil {
		n.t.Fatalf("make a StorageClass: %v", err)
	}
	n.t.Cleanup(func() {
		if err := n.Delete(context.WithoutCancel(n.t.Context()), class); client.IgnoreNotFound(err) != nil {
			n.t.Errorf("delete the StorageClass %s: %v", name, err)
		}
	})
}

// zeros is the SHA-256 of a usual disk that is all zero: head -c 512M /dev/zero | sha256sum.
const zeros = "9acca8e8c22201155389f65abbf6bc9723edc7384ead80503839f49dcc56d767"

// A disk without a source reads as zeros and takes no space.
func TestBlank(t *testing.T) {
	t.Parallel()
	for _, class := range []string{blockNow, blockLater, filesNow, filesLater} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.reportsQuotas(quantity(claimBytes(class)))
			usage := n.measure()
			n.create(newDisk(class, nil))
			n.becomesReady("disk")
			n.holds("disk", diskBytes, zeros, 0)
			usage.wasExactly(n, claimBytes(class))
			n.leftAlone("disk")
		})
	}
}

// A DataVolume without a VMDisk works in the same way, with either stanza.
func TestDataVolume(t *testing.T) {
	t.Parallel()
	block, files := corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	asked := corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(diskSize)}}
	room := corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("600Mi")}}
	http := func(file string) *cdiv1.DataVolumeSource {
		return &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: plainURL(file)}}
	}
	qcow2, raw := http(qcow2File), http(rawFile)
	blank := &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}}
	tests := map[string]struct {
		spec  cdiv1.DataVolumeSpec
		quota int64
		// bytes is the disk's size, 0: the whole file, whatever it is
		bytes int64
		sum   string
	}{
		"the report's, in the default class": {
			spec:  cdiv1.DataVolumeSpec{Source: qcow2, Storage: &cdiv1.StorageSpec{VolumeMode: &block, AccessModes: once, Resources: asked}},
			quota: diskBytes, bytes: diskBytes, sum: reference(t)},
		"storage completed from the profile": {
			spec:  cdiv1.DataVolumeSpec{Source: qcow2, Storage: &cdiv1.StorageSpec{StorageClassName: new(filesNow), Resources: asked}},
			quota: claimBytes(filesNow), bytes: diskBytes, sum: reference(t)},
		"storage as Filesystem in a class for Block": {
			spec:  cdiv1.DataVolumeSpec{Source: raw, Storage: &cdiv1.StorageSpec{StorageClassName: new(blockNow), VolumeMode: &files, AccessModes: once, Resources: asked}},
			quota: claimBytes(filesNow), bytes: diskBytes, sum: reference(t)},
		"pvc as Block": {
			spec:  cdiv1.DataVolumeSpec{Source: raw, PVC: &corev1.PersistentVolumeClaimSpec{StorageClassName: new(blockLater), VolumeMode: &block, AccessModes: once, Resources: asked}},
			quota: diskBytes, bytes: diskBytes, sum: reference(t)},
		"pvc as Filesystem, the overhead from the disk": {
			spec:  cdiv1.DataVolumeSpec{Source: qcow2, PVC: &corev1.PersistentVolumeClaimSpec{StorageClassName: new(filesLater), AccessModes: once, Resources: room}},
			quota: 600 << 20},
		"blank": {
			spec:  cdiv1.DataVolumeSpec{Source: blank, Storage: &cdiv1.StorageSpec{Resources: asked}},
			quota: diskBytes, bytes: diskBytes, sum: zeros},
		"blank as Filesystem": {
			spec:  cdiv1.DataVolumeSpec{Source: blank, Storage: &cdiv1.StorageSpec{StorageClassName: new(filesLater), Resources: asked}},
			quota: claimBytes(filesLater), bytes: diskBytes, sum: zeros},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.reportsQuotas(quantity(test.quota))
			usage := n.measure()
			n.create(&cdiv1.DataVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "disk", Annotations: map[string]string{cdi.BindImmediate: "true"}},
				Spec:       test.spec,
			})
			n.succeeds("disk")
			data := int64(0)
			if test.spec.Source.HTTP != nil {
				data = dataBytes(n)
			}
			if test.bytes > 0 {
				n.holds("disk", test.bytes, test.sum, data)
			} else {
				n.holdsAtLeast("disk", reference(t))
			}
			usage.wasExactly(n, test.quota)
			n.leftAlone("disk")
		})
	}
}

// holdsAtLeast checks a disk that is as large as its hand-written claim has room for: the image with this SHA-256, then zeros.
func (n *tenant) holdsAtLeast(claim, sum string) {
	n.t.Helper()
	file := n.inspect(n.volume(claim))
	requested := n.volume(claim).claim.Spec.Resources.Requests.Storage().Value()
	if file.Bytes < diskBytes || file.Bytes >= requested {
		n.t.Errorf("disk.img has %d bytes in a claim of %d, for an image of %d", file.Bytes, requested, diskBytes)
	}
	if file.first != sum {
		n.t.Errorf("the first %d bytes of disk.img are not the image", diskBytes)
	}
}
