package advice

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// world is a disk of 1Gi in a class that gives rise to no word, on a cluster of two nodes.
func world() World {
	class := func(name, provisioner string, waits bool) storagev1.StorageClass {
		c := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: new(storagev1.VolumeBindingImmediate)}
		if waits {
			c.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		}
		return c
	}
	cloud := cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Annotations: map[string]string{cdi.MinimumClaimSize: "4Gi"}}}
	cloud.Status.ClaimPropertySets = []cdiv1.ClaimPropertySet{{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: new(corev1.PersistentVolumeBlock)}}
	return World{
		Disk: v1alpha1.VMDisk{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       v1alpha1.VMDiskSpec{Storage: new(resource.MustParse("1Gi")), StorageClass: "replicated"},
		},
		Volumes: volume.Cluster{
			Classes:  []storagev1.StorageClass{class("replicated", "rbd.csi.ceph.com", false), class("local", "topolvm.io", true), class("eager", "topolvm.io", false), class("cloud", "ebs.csi.aws.com", true)},
			Profiles: []cdiv1.StorageProfile{cloud},
		},
		Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}},
	}
}

// mark puts an annotation "true" to classes. Those further on are newer.
func (w *World) mark(key string, names ...string) {
	for at, name := range names {
		for i := range w.Volumes.Classes {
			if c := &w.Volumes.Classes[i]; c.Name == name {
				c.Annotations = map[string]string{key: "true"}
				c.CreationTimestamp = metav1.Date(2026, 12, 1, at, 0, 0, 0, time.UTC)
			}
		}
	}
}

func controlled(kind, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "web", OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, Controller: new(true)}}}
}

func TestFor(t *testing.T) {
	const (
		waits   = " exists already and isn't this disk's: the disk waits until it is gone. Delete it, or create the disk under another name"
		noClass = "the disk names no storageClass"
		there   = "There are cloud, eager, local, replicated. To name "
		again   = ", delete the disk and create it again"
		onOne   = " can be used on one node only, and "
	)
	for name, c := range map[string]struct {
		change func(w *World)
		want   []string
	}{
		"a disk that nothing is to be said about": {func(*World) {}, nil},

		"a DataVolume of somebody's":             {func(w *World) { w.DataVolume = &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "web"}} }, []string{"DataVolume web" + waits}},
		"a DataVolume of another disk":           {func(w *World) { w.DataVolume = &cdiv1.DataVolume{ObjectMeta: controlled("VMDisk", "other")} }, []string{"DataVolume web" + waits}},
		"a DataVolume of a virtual machine":      {func(w *World) { w.DataVolume = &cdiv1.DataVolume{ObjectMeta: controlled("VirtualMachine", "web")} }, []string{"DataVolume web" + waits}},
		"a DataVolume that an earlier disk left": {func(w *World) { w.DataVolume = &cdiv1.DataVolume{ObjectMeta: controlled("VMDisk", "web")} }, nil},
		"a DataVolume that is being deleted": {func(w *World) {
			w.DataVolume = &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "web", DeletionTimestamp: &metav1.Time{}}}
		}, nil},
		"a DataVolume that an earlier disk left, and a claim of somebody's": {func(w *World) {
			w.DataVolume = &cdiv1.DataVolume{ObjectMeta: controlled("VMDisk", "web")}
			w.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		}, []string{"PersistentVolumeClaim web" + waits}},
		"a claim of somebody's": {func(w *World) { w.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web"}} }, []string{"PersistentVolumeClaim web" + waits}},
		"a claim that a backup brought back": {
			func(w *World) {
				w.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{cdi.PopulatedFor: "web"}}}
			},
			[]string{"PersistentVolumeClaim web exists already and is marked as filled for this disk: the disk takes it over as it is, whatever its spec says"},
		},
		"a claim that was filled for another disk": {
			func(w *World) {
				w.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{cdi.PopulatedFor: "other"}}}
			},
			[]string{"PersistentVolumeClaim web" + waits},
		},
		"a claim that an earlier disk left": {func(w *World) { w.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: controlled("DataVolume", "web")} }, nil},
		"a name that is taken, of a disk that there would be more to say about": {func(w *World) {
			w.DataVolume = &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
			w.Disk.Spec.StorageClass = "gone"
		}, []string{"DataVolume web" + waits}},

		"no default class": {func(w *World) { w.Disk.Spec.StorageClass = "" },
			[]string{noClass + " and none is the cluster's default: the disk waits until one is. " + there + "one" + again}},
		"one default class": {func(w *World) { w.Disk.Spec.StorageClass = ""; w.mark(cdi.DefaultClass, "replicated") }, nil},
		"several default classes": {func(w *World) { w.Disk.Spec.StorageClass = ""; w.mark(cdi.DefaultClass, "cloud", "replicated") },
			[]string{noClass + ", and cloud, replicated are all marked as the default: it gets replicated. storageClass can't be changed later"}},
		"several for virtual machines": {func(w *World) { w.Disk.Spec.StorageClass = ""; w.mark(cdi.DefaultVirtClass, "eager", "replicated") },
			[]string{noClass + ", and eager, replicated are all marked as the default: it gets replicated. storageClass can't be changed later"}},
		"several of the cluster's, and one for virtual machines": {func(w *World) {
			w.Disk.Spec.StorageClass = ""
			w.mark(cdi.DefaultClass, "cloud", "local")
			w.mark(cdi.DefaultVirtClass, "replicated")
		}, nil},
		"several, and a disk that names its class": {func(w *World) { w.mark(cdi.DefaultClass, "cloud", "local") }, nil},
		"several, and the controller has one": {func(w *World) {
			w.Disk.Spec.StorageClass, w.DefaultClass = "", "replicated"
			w.mark(cdi.DefaultClass, "cloud", "local")
		}, nil},

		"a class that isn't there": {func(w *World) { w.Disk.Spec.StorageClass = "fast" },
			[]string{"StorageClass fast does not exist yet: the disk waits for it. " + there + "another one" + again}},
		"a class of the controller's that isn't there": {func(w *World) { w.Disk.Spec.StorageClass, w.DefaultClass = "", "fast" },
			[]string{"StorageClass fast, the controller's default for disks, does not exist yet: the disk waits for it. " + there + "another one" + again}},

		"a class of one node": {func(w *World) { w.Disk.Spec.StorageClass = "local" },
			[]string{"a volume of StorageClass local" + onOne + "with bindImmediately the place is picked before the virtual machine is known: one that may not run there won't start. bindImmediately: false avoids that"}},
		"a class of one node that is the default": {func(w *World) { w.Disk.Spec.StorageClass = ""; w.mark(cdi.DefaultClass, "local") },
			[]string{"a volume of StorageClass local" + onOne + "with bindImmediately the place is picked before the virtual machine is known: one that may not run there won't start. bindImmediately: false avoids that"}},
		"a class of one node, and a disk that waits": {func(w *World) { w.Disk.Spec.StorageClass, w.Disk.Spec.BindImmediately = "local", new(false) }, nil},
		"a class of one node, and a disk that says where": {func(w *World) {
			w.Disk.Spec.StorageClass, w.Disk.Spec.Placement = "local", &v1alpha1.Placement{NodeSelector: map[string]string{"gpu": "yes"}}
		}, nil},
		"a class of one node, where there is one": {func(w *World) { w.Disk.Spec.StorageClass, w.Nodes = "local", w.Nodes[:1] }, nil},
		"a class of one node that never waits": {func(w *World) { w.Disk.Spec.StorageClass, w.Disk.Spec.BindImmediately = "eager", new(false) },
			[]string{"a volume of StorageClass eager" + onOne + "the class picks the place without asking where the virtual machine may run: one that may not run there won't start. A class with volumeBindingMode: WaitForFirstConsumer asks"}},

		"a class whose volumes are larger": {func(w *World) { w.Disk.Spec.StorageClass = "cloud" },
			[]string{"StorageClass cloud makes no volume smaller than 4Gi: for a disk of 1Gi its claim asks for that, and a quota counts it"}},
		"a disk of the class's smallest size": {func(w *World) {
			w.Disk.Spec.StorageClass, w.Disk.Spec.Storage = "cloud", new(resource.MustParse("4Gi"))
		}, nil},
		"a disk that takes its image's size": {func(w *World) { w.Disk.Spec.StorageClass, w.Disk.Spec.Storage = "cloud", nil }, nil},

		"credentials over https":   {func(w *World) { w.from(v1alpha1.HTTPSource{URL: "https://a/b", SecretRef: "s"}) }, nil},
		"http without credentials": {func(w *World) { w.from(v1alpha1.HTTPSource{URL: "http://a/b", ExtraHeaders: []string{"A: b"}}) }, nil},
		"credentials over http":    {func(w *World) { w.from(v1alpha1.HTTPSource{URL: "http://a/b", SecretRef: "s"}) }, []string{"source.http.url is http, so what secretRef names can be read on its way to the server: use https"}},
		"secret headers over http": {func(w *World) { w.from(v1alpha1.HTTPSource{URL: "http://a/b", SecretExtraHeaders: []string{"h"}}) }, []string{"source.http.url is http, so what secretExtraHeaders names can be read on its way to the server: use https"}},
		"both, and a checksum of old": {func(w *World) {
			w.from(v1alpha1.HTTPSource{URL: "http://a/b", SecretRef: "s", SecretExtraHeaders: []string{"h"}, Checksum: "md5:1"})
		}, []string{"source.http.url is http, so what secretRef and secretExtraHeaders names can be read on its way to the server: use https", "source.http.checksum is md5, which finds damage, but not an image that was made to deceive: use sha256 or sha512"}},
		"a checksum of sha1":   {func(w *World) { w.from(v1alpha1.HTTPSource{URL: "https://a/b", Checksum: "sha1:1"}) }, []string{"source.http.checksum is sha1, which finds damage, but not an image that was made to deceive: use sha256 or sha512"}},
		"a checksum of sha256": {func(w *World) { w.from(v1alpha1.HTTPSource{URL: "https://a/b", Checksum: "sha256:1"}) }, nil},

		"several things, each in its own sentence": {
			func(w *World) {
				w.Disk.Spec.StorageClass = "fast"
				w.from(v1alpha1.HTTPSource{URL: "http://a/b", Checksum: "sha1:1"})
			},
			[]string{"StorageClass fast does not exist yet: the disk waits for it. " + there + "another one" + again, "source.http.checksum is sha1, which finds damage, but not an image that was made to deceive: use sha256 or sha512"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world()
			c.change(&w)
			got := For(w)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, text := range got {
				if len(text) > 256 || strings.HasSuffix(text, ".") {
					t.Errorf("%q has %d characters, and the API server may cut what comes after 256; it ends without a stop", text, len(text))
				}
			}
		})
	}
}

func (w *World) from(s v1alpha1.HTTPSource) { w.Disk.Spec.Source = &v1alpha1.Source{HTTP: &s} }
