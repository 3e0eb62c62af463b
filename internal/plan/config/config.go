// Package config decides the status of the one CDIConfig: the defaults that administrators leave out, spelled out for
// those who read them. It is pure.
package config

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// Status is the status for a CDIConfig's spec and the cluster's classes. KubeVirt wants one overhead for each class.
func Status(config *cdiv1.CDIConfig, classes []storagev1.StorageClass) cdiv1.CDIConfigStatus {
	status := *config.Status.DeepCopy()
	spec := config.Spec
	status.FilesystemOverhead = overhead(spec.FilesystemOverhead, classes)
	status.DefaultPodResourceRequirements = resources(spec.PodResourceRequirements)
	status.Preallocation = spec.Preallocation != nil && *spec.Preallocation
	status.ImagePullSecrets = spec.ImagePullSecrets
	status.ImportProxy = spec.ImportProxy
	status.UploadProxyURL = spec.UploadProxyURLOverride
	return status
}

func overhead(spec *cdiv1.FilesystemOverhead, classes []storagev1.StorageClass) *cdiv1.FilesystemOverhead {
	global := cdiv1.Percent(cdi.DefaultOverhead)
	var special map[string]cdiv1.Percent
	if spec != nil {
		special = spec.StorageClass
		if spec.Global != "" {
			global = spec.Global
		}
	}
	byClass := map[string]cdiv1.Percent{}
	for _, c := range classes {
		byClass[c.Name] = global
	}
	maps.Copy(byClass, special)
	return &cdiv1.FilesystemOverhead{Global: global, StorageClass: byClass}
}

// resources completes what an administrator set with defaults, so that a quota on cpu or memory always finds a value. Requests and
// memory are CDI's; a whole core as the limit lets a worker decode faster than CDI's three quarters.
func resources(spec *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	r := &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("60M")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("600M")},
	}
	if spec != nil {
		maps.Copy(r.Requests, spec.Requests)
		maps.Copy(r.Limits, spec.Limits)
	}
	for name, limit := range r.Limits {
		if request, ok := r.Requests[name]; ok && request.Cmp(limit) > 0 {
			r.Requests[name] = limit
		}
	}
	return r
}
