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
			got := InForce(nil, &cdiv1.CDIConfig{Spec: cdiv1.CDIConfigSpec{FilesystemOverhead: c.spec}}, classes).Status
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
		"a request above the default limit raises the limit": {
			&corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
			corev1.ResourceRequirements{Requests: list("2", "60M"), Limits: list("2", "600M")},
		},
		"a limit below the default request lowers the request": {
			&corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")}},
			corev1.ResourceRequirements{Requests: list("50m", "60M"), Limits: list("50m", "600M")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := InForce(nil, &cdiv1.CDIConfig{Spec: cdiv1.CDIConfigSpec{PodResourceRequirements: c.spec}}, nil).Status
			if diff := cmp.Diff(&c.want, got.DefaultPodResourceRequirements); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheCDIObjectsConfigIsInForceBeforeItIsWritten(t *testing.T) {
	set := func(value cdiv1.Percent) cdiv1.CDIConfigSpec {
		return cdiv1.CDIConfigSpec{FilesystemOverhead: &cdiv1.FilesystemOverhead{Global: value}}
	}
	operator := func(spec cdiv1.CDIConfigSpec) *cdiv1.CDI { return &cdiv1.CDI{Spec: cdiv1.CDISpec{Config: &spec}} }
	for name, c := range map[string]struct {
		operator *cdiv1.CDI
		found    *cdiv1.CDIConfig
		want     cdiv1.Percent
	}{
		"neither is there":                   {nil, nil, "0.06"},
		"only the CDI object is there":       {operator(set("0.1")), nil, "0.1"},
		"the CDIConfig is as it was applied": {operator(set("0.1")), &cdiv1.CDIConfig{}, "0.1"},
		"the CDIConfig is an older one":      {operator(set("0.1")), &cdiv1.CDIConfig{Spec: set("0.2"), Status: cdiv1.CDIConfigStatus{FilesystemOverhead: set("0.2").FilesystemOverhead}}, "0.1"},
		"the CDI object configures nothing":  {&cdiv1.CDI{}, &cdiv1.CDIConfig{Spec: set("0.2")}, "0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			got := InForce(c.operator, c.found, nil).Status.FilesystemOverhead.Global
			if got != c.want {
				t.Errorf("the overhead is %s, want %s", got, c.want)
			}
		})
	}
}
