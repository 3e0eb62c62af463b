package pod

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			got, err := yaml.Marshal(worker)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
