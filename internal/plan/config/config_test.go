package config

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"
)

func TestEveryClassHasAnOverhead(t *testing.T) {
	classes := []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	for name, c := range map[string]struct {
		spec *cdiv1.FilesystemOverhead
		want cdiv1.FilesystemOverhead
	}{
		"nothing is configured": {nil, cdiv1.FilesystemOverhead{Global: "0.06", StorageClass: map[string]cdiv1.Percent{"a": "0.06", "b": "0.06"}}},
		"a global value is configured": {
			&cdiv1.FilesystemOverhead{Global: "0.1"},
			cdiv1.FilesystemOverhead{Global: "0.1", StorageClass: map[string]cdiv1.Percent{"a": "0.1", "b": "0.1"}},
		},
		"one class has its own": {
			&cdiv1.FilesystemOverhead{StorageClass: map[string]cdiv1.Percent{"b": "0"}},
			cdiv1.FilesystemOverhead{Global: "0.06", StorageClass: map[string]cdiv1.Percent{"a": "0.06", "b": "0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Status(&cdiv1.CDIConfig{Spec: cdiv1.CDIConfigSpec{FilesystemOverhead: c.spec}}, classes)
			if diff := cmp.Diff(&c.want, got.FilesystemOverhead); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWorkersAlwaysHaveRequestsAndLimits(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for name, c := range map[string]struct {
		spec *corev1.ResourceRequirements
		want corev1.ResourceRequirements
	}{
		"nothing is configured": {nil, corev1.ResourceRequirements{Requests: list("100m", "60M"), Limits: list("1", "600M")}},
		"one value is configured": {
			&corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
			corev1.ResourceRequirements{Requests: list("100m", "60M"), Limits: list("2", "600M")},
		},
		"a limit below the default request lowers the request": {
			&corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}},
			corev1.ResourceRequirements{Requests: list("50m", "60M"), Limits: list("50m", "600M")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Status(&cdiv1.CDIConfig{Spec: cdiv1.CDIConfigSpec{PodResourceRequirements: c.spec}}, nil)
			if diff := cmp.Diff(&c.want, got.DefaultPodResourceRequirements); diff != "" {
				t.Error(diff)
			}
		})
	}
}
