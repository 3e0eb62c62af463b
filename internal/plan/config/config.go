// Package config decides what the one CDIConfig says: the CDI object's configuration as its spec, and as its status the same with the
// defaults that administrators leave out, for those who read it. It is pure.
package config

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// InForce is the CDIConfig as it should be, given the CDI object and the CDIConfig that were found; nil for none. It does not matter
// whether it has been written yet.
func InForce(operator *cdiv1.CDI, found *cdiv1.CDIConfig, classes []storagev1.StorageClass) *cdiv1.CDIConfig {
	config := &cdiv1.CDIConfig{}
	if found != nil {
		config = found.DeepCopy()
	}
	if operator != nil && operator.Spec.Config != nil {
		config.Spec = *operator.Spec.Config.DeepCopy()
	}
	config.Status = statusOf(config, classes)
	return config
}

// statusOf is the status for a CDIConfig's spec and the cluster's classes. KubeVirt wants one overhead for each class.
func statusOf(config *cdiv1.CDIConfig, classes []storagev1.StorageClass) cdiv1.CDIConfigStatus {
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
// memory are CDI's; a whole core as the limit lets a worker decode faster than CDI's three quarters. Where a request is
// above its limit, what the administrator set stands.
func resources(spec *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	r := &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("60M")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("600M")},
	}
	if spec != nil {
		maps.Copy(r.Requests, spec.Requests)
		maps.Copy(r.Limits, spec.Limits)
	}
	for name, request := range r.Requests {
		limit, limited := r.Limits[name]
		switch {
		case !limited || request.Cmp(limit) <= 0:
		case isSet(spec.Limits, name):
			r.Requests[name] = limit
		default:
			r.Limits[name] = request
		}
	}
	return r
}

func isSet(list corev1.ResourceList, name corev1.ResourceName) bool {
	_, ok := list[name]
	return ok
}
