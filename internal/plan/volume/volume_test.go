package volume

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
)

const (
	GiB   = 1 << 30
	block = corev1.PersistentVolumeBlock
	files = corev1.PersistentVolumeFilesystem
	once  = corev1.ReadWriteOnce
	many  = corev1.ReadWriteMany
)

func sized(s string) corev1.VolumeResourceRequirements {
	return corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}}
}

// cluster has a class for blocks, "fast", and one for files, "plain", whose filesystems take a tenth.
func cluster() Cluster {
	set := func(m corev1.PersistentVolumeMode, a ...corev1.PersistentVolumeAccessMode) cdiv1.ClaimPropertySet {
		return cdiv1.ClaimPropertySet{AccessModes: a, VolumeMode: &m}
	}
	profile := func(name string, sets ...cdiv1.ClaimPropertySet) cdiv1.StorageProfile {
		p := cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Status.ClaimPropertySets = sets
		return p
	}
	class := func(name string) storagev1.StorageClass {
		return storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	large := profile("large", set(block, once))
	large.Annotations = map[string]string{cdi.MinimumClaimSize: "4Gi"}
	config := &cdiv1.CDIConfig{}
	config.Status.FilesystemOverhead = &cdiv1.FilesystemOverhead{Global: "0.055", StorageClass: map[string]cdiv1.Percent{"plain": "0.1"}}
	return Cluster{
		Classes:  []storagev1.StorageClass{class("fast"), class("plain"), class("bare"), class("large")},
		Profiles: []cdiv1.StorageProfile{profile("fast", set(block, many), set(block, once), set(files, once)), profile("plain", set(files, once)), large},
		Config:   config,
	}
}

// summary is a volume in short.
type summary struct {
	Class        string
	Modes        []corev1.PersistentVolumeAccessMode
	Mode         corev1.PersistentVolumeMode
	Claim, Disk  int64
	AllowSmaller bool
}

func summarize(v Volume) summary {
	s := summary{Modes: v.Claim.AccessModes, Mode: Mode(v.Claim.VolumeMode), Disk: v.DiskBytes, AllowSmaller: v.AllowSmaller}
	if v.Class != nil {
		s.Class = v.Class.Name
	}
	q := v.Claim.Resources.Requests[corev1.ResourceStorage]
	s.Claim = q.Value()
	return s
}

func TestVolumeOfAStorageSection(t *testing.T) {
	for name, c := range map[string]struct {
		storage cdiv1.StorageSpec
		want    summary
	}{
		"everything comes from the profile": {
			cdiv1.StorageSpec{StorageClassName: new("fast"), Resources: sized("20Gi")},
			summary{"fast", []corev1.PersistentVolumeAccessMode{many}, block, 20 * GiB, 20 * GiB, false},
		},
		"a volume mode picks the profile's set of that mode": {
			cdiv1.StorageSpec{StorageClassName: new("fast"), VolumeMode: new(files), Resources: sized("1Gi")},
			summary{"fast", []corev1.PersistentVolumeAccessMode{once}, files, 1132797625, GiB, false},
		},
		"an access mode picks the profile's set that has it": {
			cdiv1.StorageSpec{StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{once}, Resources: sized("1Gi")},
			summary{"fast", []corev1.PersistentVolumeAccessMode{once}, block, GiB, GiB, false},
		},
		"a filesystem's claim is enlarged by the class's own overhead": {
			cdiv1.StorageSpec{StorageClassName: new("plain"), Resources: sized("1Gi")},
			summary{"plain", []corev1.PersistentVolumeAccessMode{once}, files, 1181116007, GiB, false},
		},
		"the disk is exactly what was asked, be it odd": {
			cdiv1.StorageSpec{StorageClassName: new("plain"), Resources: sized("10000001")},
			summary{"plain", []corev1.PersistentVolumeAccessMode{once}, files, 11534336, 10000384, false},
		},
		"a claim is never smaller than the class can serve": {
			cdiv1.StorageSpec{StorageClassName: new("large"), Resources: sized("1Gi")},
			summary{"large", []corev1.PersistentVolumeAccessMode{once}, block, 4 * GiB, GiB, false},
		},
		"a claim that is larger stays as it is": {
			cdiv1.StorageSpec{StorageClassName: new("large"), Resources: sized("5Gi")},
			summary{"large", []corev1.PersistentVolumeAccessMode{once}, block, 5 * GiB, 5 * GiB, false},
		},
		"both modes said leave nothing to the profile": {
			cdiv1.StorageSpec{StorageClassName: new("bare"), VolumeMode: new(block), AccessModes: []corev1.PersistentVolumeAccessMode{many}, Resources: sized("1Gi")},
			summary{"bare", []corev1.PersistentVolumeAccessMode{many}, block, GiB, GiB, false},
		},
		"the module's word for the profile's mode is no mode": {
			cdiv1.StorageSpec{StorageClassName: new("fast"), VolumeMode: new(cdiv1.PersistentVolumeFromStorageProfile), Resources: sized("1Gi")},
			summary{"fast", []corev1.PersistentVolumeAccessMode{many}, block, GiB, GiB, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Of(cdiv1.DataVolumeSpec{Storage: &c.storage}, cluster())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, summarize(v)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVolumeOfAClaimSection(t *testing.T) {
	for name, c := range map[string]struct {
		pvc  corev1.PersistentVolumeClaimSpec
		want summary
	}{
		"a block claim is taken as it is": {
			corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast"), VolumeMode: new(block), AccessModes: []corev1.PersistentVolumeAccessMode{once}, Resources: sized("1Gi")},
			summary{"fast", []corev1.PersistentVolumeAccessMode{once}, block, GiB, GiB, false},
		},
		"a filesystem's overhead comes out of the disk, and the claim stays": {
			corev1.PersistentVolumeClaimSpec{StorageClassName: new("plain"), AccessModes: []corev1.PersistentVolumeAccessMode{once}, Resources: sized("1Gi")},
			summary{"plain", []corev1.PersistentVolumeAccessMode{once}, files, GiB, 930 * MiB, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Of(cdiv1.DataVolumeSpec{PVC: &c.pvc}, cluster())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, summarize(v)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestVolumeOfAnExistingClaim gives claims that today's defaults and profiles would not make: they were made under others.
func TestVolumeOfAnExistingClaim(t *testing.T) {
	claim := func(class *string, m corev1.PersistentVolumeMode, size string) corev1.PersistentVolumeClaimSpec {
		return corev1.PersistentVolumeClaimSpec{StorageClassName: class, VolumeMode: &m, AccessModes: []corev1.PersistentVolumeAccessMode{once}, Resources: sized(size)}
	}
	modes := []corev1.PersistentVolumeAccessMode{once}
	storage := cdiv1.DataVolumeSpec{Storage: &cdiv1.StorageSpec{Resources: sized("1Gi")}}
	byHand := cdiv1.DataVolumeSpec{PVC: &corev1.PersistentVolumeClaimSpec{}}
	for name, c := range map[string]struct {
		claim corev1.PersistentVolumeClaimSpec
		spec  cdiv1.DataVolumeSpec
		want  summary
	}{
		"a filesystem in a class that would now give blocks": {claim(new("fast"), files, "2Gi"), storage, summary{"fast", modes, files, 2 * GiB, GiB, false}},
		"a block volume in a class that is gone":             {claim(new("gone"), block, "1Gi"), storage, summary{"", modes, block, GiB, GiB, false}},
		"a claim without a class":                            {claim(nil, block, "1Gi"), storage, summary{"", modes, block, GiB, GiB, false}},
		"a hand-written filesystem":                          {claim(new("plain"), files, "1Gi"), byHand, summary{"plain", modes, files, GiB, 930 * MiB, true}},
		"a hand-written block volume":                        {claim(new("fast"), block, "1Gi"), byHand, summary{"fast", modes, block, GiB, GiB, false}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, summarize(OfClaim(c.claim, c.spec, cluster()))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatCannotBeAVolumeSaysWhatToSet(t *testing.T) {
	storage := func(s cdiv1.StorageSpec) cdiv1.DataVolumeSpec { return cdiv1.DataVolumeSpec{Storage: &s} }
	for name, c := range map[string]struct {
		spec cdiv1.DataVolumeSpec
		says string
	}{
		"no section":           {cdiv1.DataVolumeSpec{}, "add storage with resources.requests.storage"},
		"both sections":        {cdiv1.DataVolumeSpec{PVC: &corev1.PersistentVolumeClaimSpec{}, Storage: &cdiv1.StorageSpec{}}, "keep one of them"},
		"no size":              {storage(cdiv1.StorageSpec{StorageClassName: new("fast")}), "set resources.requests.storage"},
		"hardly a size":        {storage(cdiv1.StorageSpec{Resources: sized("1000")}), "must be at least 1Mi"},
		"no class by default":  {storage(cdiv1.StorageSpec{Resources: sized("1Gi")}), "set storageClassName"},
		"a class that is gone": {storage(cdiv1.StorageSpec{StorageClassName: new("gone"), Resources: sized("1Gi")}), "use one of bare, fast, large, plain"},
		"an empty profile":     {storage(cdiv1.StorageSpec{StorageClassName: new("bare"), Resources: sized("1Gi")}), "set accessModes in the DataVolume"},
		"a claim without modes": {
			cdiv1.DataVolumeSpec{PVC: &corev1.PersistentVolumeClaimSpec{Resources: sized("1Gi")}}, "set one, such as ReadWriteOnce"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Of(c.spec, cluster())
			var bad *Invalid
			if !errors.As(err, &bad) || !strings.Contains(bad.Message, c.says) {
				t.Errorf("got %v, want an Invalid that says %q", err, c.says)
			}
		})
	}
}

func TestTheDefaultClass(t *testing.T) {
	at := func(day int) metav1.Time { return metav1.Date(2026, 11, day, 0, 0, 0, 0, time.UTC) }
	class := func(name string, made metav1.Time, annotations ...string) storagev1.StorageClass {
		c := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: made, Annotations: map[string]string{}}}
		for _, a := range annotations {
			c.Annotations[a] = "true"
		}
		return c
	}
	for name, c := range map[string]struct {
		classes []storagev1.StorageClass
		want    string
	}{
		"none is marked":                                {[]storagev1.StorageClass{class("a", at(1))}, ""},
		"the cluster's default":                         {[]storagev1.StorageClass{class("a", at(1)), class("b", at(1), cdi.DefaultClass)}, "b"},
		"the one for virtual machines comes first":      {[]storagev1.StorageClass{class("a", at(1), cdi.DefaultClass), class("b", at(1), cdi.DefaultVirtClass)}, "b"},
		"of several the newest":                         {[]storagev1.StorageClass{class("a", at(1), cdi.DefaultClass), class("b", at(2), cdi.DefaultClass)}, "b"},
		"of several made at once the first by its name": {[]storagev1.StorageClass{class("b", at(1), cdi.DefaultClass), class("a", at(1), cdi.DefaultClass)}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			if found := VirtDefault(c.classes); found != nil {
				got = found.Name
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUsableUndoesInflated(t *testing.T) {
	for _, overhead := range []cdiv1.Percent{"0", "0.055", "0.06", "0.1", "0.333", "1"} {
		for _, size := range []int64{MiB, 3 * MiB, GiB, 20 * GiB, 64 << 40} {
			if got := Usable(Inflated(size, overhead), overhead); got != size {
				t.Errorf("overhead %s: a disk of %d becomes one of %d", overhead, size, got)
			}
		}
	}
}

func TestAClaimIsMadeLargerOnlyWhereItsClassNeedsIt(t *testing.T) {
	for size, want := range map[string]int64{"1Gi": 4 * GiB, "4Gi": 0, "5Gi": 0} {
		v, err := Of(cdiv1.DataVolumeSpec{Storage: &cdiv1.StorageSpec{StorageClassName: new("large"), Resources: sized(size)}}, cluster())
		if err != nil || v.LeastBytes != want {
			t.Errorf("for a disk of %s, the class's smallest claim is given as %d (%v), want %d", size, v.LeastBytes, err, want)
		}
	}
}
