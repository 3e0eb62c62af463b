package pod

import (
	"encoding/json"

	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

// EgressOf is where the DataVolume lets its workers connect to. An annotation that can't be read lets them nowhere: the worker says so.
func EgressOf(dv *cdiv1.DataVolume) *job.Egress {
	text, ok := dv.Annotations[v1alpha1.EgressAnnotation]
	if !ok {
		return nil
	}
	var e job.Egress
	if json.Unmarshal([]byte(text), &e) != nil {
		return &job.Egress{Deny: []string{text}}
	}
	return &e
}
