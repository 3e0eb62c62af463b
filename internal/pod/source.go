package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/internal/job"
)

// Mount is a Secret or a ConfigMap that the worker finds as files under a path. The kubelet reads it; the controller never does.
type Mount struct {
	Secret, ConfigMap string
	Path              string
}

func (m Mount) source() corev1.VolumeSource {
	if m.Secret != "" {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: m.Secret}}
	}
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: m.ConfigMap}}}
}

// Where a worker finds its inputs.
const (
	credentialsPath = "/run/vmdisk/credentials"
	caPath          = "/run/vmdisk/ca"
	headersPath     = "/run/vmdisk/headers"
)

// SourceOf turns a DataVolume's source into a job's, and names what must be mounted for it.
func SourceOf(source *cdiv1.DataVolumeSource) (job.Source, []Mount) {
	if source.HTTP == nil {
		return job.Source{Blank: &job.Blank{}}, nil
	}
	http := source.HTTP
	spec := job.HTTP{
		URL:      http.URL,
		Checksum: http.Checksum,
		Headers:  http.ExtraHeaders,
	}
	var mounts []Mount
	if http.SecretRef != "" {
		spec.CredentialsDir = credentialsPath
		mounts = append(mounts, Mount{Secret: http.SecretRef, Path: credentialsPath})
	}
	if http.CertConfigMap != "" {
		spec.CADir = caPath
		mounts = append(mounts, Mount{ConfigMap: http.CertConfigMap, Path: caPath})
	}
	for i, name := range http.SecretExtraHeaders {
		dir := fmt.Sprintf("%s/%d", headersPath, i)
		spec.HeaderDirs = append(spec.HeaderDirs, dir)
		mounts = append(mounts, Mount{Secret: name, Path: dir})
	}
	return job.Source{HTTP: &spec}, mounts
}
