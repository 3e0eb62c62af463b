package pod

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
)

var update = flag.Bool("update", false, "write the golden pods anew")

func TestWorker(t *testing.T) {
	dv := &cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", Annotations: map[string]string{"linkerd.io/inject": "enabled"}},
		Spec: cdiv1.DataVolumeSpec{Source: &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{
			URL: "https://images.example/debian.qcow2", SecretRef: "login", CertConfigMap: "ca", SecretExtraHeaders: []string{"token"},
			Checksum: "sha256:00", ExtraHeaders: []string{"X-A: b"},
		}}},
	}
	config := &cdiv1.CDIConfig{}
	config.Status.ImportProxy = &cdiv1.ImportProxy{HTTPSProxy: new("http://proxy:3128"), NoProxy: new(".svc")}
	for name, target := range map[string]job.Target{
		"block":      {Kind: job.Block, Path: DevicePath, SizeBytes: 20 << 30},
		"filesystem": {Kind: job.File, Path: VolumePath + "/disk.img", SizeBytes: 20 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			source, mounts := SourceOf(dv.Spec.Source)
			worker := Worker(Request{
				DataVolume: dv,
				Claim:      &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "claim-uid", Labels: map[string]string{"team": "web"}}},
				Owner:      metav1.OwnerReference{Kind: "DataVolume", Name: "web-root"},
				Job:        job.Spec{Disk: "tenant-a/web-root", Attempt: 2, Source: source, Target: target},
				Mounts:     mounts,
				Config:     config,
				Settings:   Settings{Image: "vmdisk:test", PullPolicy: corev1.PullNever},
			})
			golden(t, name, worker)
		})
	}
}

func TestAWorkerThatCopiesMountsBothVolumes(t *testing.T) {
	for name, volume := range map[string]job.Volume{
		"copy-block":      {Kind: job.Block, Path: SourceDevicePath},
		"copy-filesystem": {Kind: job.File, Path: SourcePath + "/disk.img"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := func(name string) *corev1.PersistentVolumeClaim {
				return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: name, UID: types.UID(name + "-uid")}}
			}
			golden(t, name, Worker(Request{
				DataVolume: &cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root"}},
				Claim:      claim("web-root"),
				From:       claim("web-base"),
				Owner:      metav1.OwnerReference{Kind: "DataVolume", Name: "web-root"},
				Job: job.Spec{Disk: "tenant-a/web-root", Attempt: 1, Source: job.Source{Volume: &volume},
					Target: job.Target{Kind: job.Block, Path: DevicePath, SizeBytes: 20 << 30}},
				Settings: Settings{Image: "vmdisk:test"},
			}))
		})
	}
}

// golden compares a pod with the one that is kept under a name.
func golden(t *testing.T, name string, pod *corev1.Pod) {
	t.Helper()
	got, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}
