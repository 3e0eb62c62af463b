package populate

import (
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// owner is what has a DataVolume's source, in messages.
const owner = "the DataVolume"

// Served says whether this version can fill a disk from the spec's source. Its error is a *volume.Invalid, which names whatever has the
// source as its owner.
func Served(owner string, spec cdiv1.DataVolumeSpec) error {
	no := func(what string) error {
		return &volume.Invalid{Message: what + " is not served by this version of vmdisk: it fills disks from http, blank, pvc and snapshot sources"}
	}
	s := spec.Source
	switch {
	case external(spec) && (s != nil || spec.SourceRef != nil):
		return &volume.Invalid{Message: owner + " has a source, and a dataSource or dataSourceRef in its claim, so that two would fill the disk: keep one of them"}
	case external(spec):
		return no("a claim that another controller populates")
	case spec.ContentType != "" && spec.ContentType != cdiv1.DataVolumeKubeVirt:
		return no("content type " + string(spec.ContentType))
	case spec.SourceRef != nil:
		return nil
	case s == nil:
		return &volume.Invalid{Message: owner + " has no source: set one, such as http or blank"}
	case s.S3 != nil:
		return no("source s3")
	case s.GCS != nil:
		return no("source gcs")
	case s.Registry != nil:
		return no("source registry")
	case s.Upload != nil:
		return no("source upload")
	case s.Imageio != nil:
		return no("source imageio")
	case s.VDDK != nil:
		return no("source vddk")
	case s.HTTP == nil && s.Blank == nil && s.PVC == nil && s.Snapshot == nil:
		return &volume.Invalid{Message: owner + "'s source is empty: set one, such as http or blank"}
	case s.HTTP != nil && s.Blank != nil:
		return &volume.Invalid{Message: owner + " has several sources: keep one of them"}
	}
	if s.PVC != nil || s.Snapshot != nil {
		return nil
	}
	from, _ := pod.SourceOf(s)
	if err := from.Validate(); err != nil {
		return &volume.Invalid{Message: owner + "'s source can't be read: " + err.Error()}
	}
	return nil
}

// external says whether the claim names something else to be filled from.
func external(spec cdiv1.DataVolumeSpec) bool {
	return spec.PVC != nil && (spec.PVC.DataSource != nil || spec.PVC.DataSourceRef != nil) ||
		spec.Storage != nil && (spec.Storage.DataSource != nil || spec.Storage.DataSourceRef != nil)
}
