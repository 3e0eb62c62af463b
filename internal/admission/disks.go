package admission

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

// disks answers for VMDisks that are created.
type disks struct {
	reader  client.Reader
	decoder admission.Decoder
	options clone.Options
}

// Handle refuses a disk, lets it in with a warning, or lets it in, as the plan for it says.
func (d *disks) Handle(ctx context.Context, request admission.Request) admission.Response {
	var disk v1alpha1.VMDisk
	if err := d.decoder.Decode(request, &disk); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the VMDisk: %w", err))
	}
	disk.Namespace = request.Namespace
	options := d.options
	wanted := clone.OfDisk(disk, clone.Cluster{}, options)
	if wanted.Image == "" {
		return admission.Allowed("")
	}
	cluster, err := kube.Origin(ctx, d.reader, wanted, &options) // who uses the image is no matter of admission
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("look up what VMDisk %s is made from: %w: try again", disk.Name, err))
	}
	answer := clone.Of(wanted, cluster, options).Admission(options.Policy)
	switch {
	case answer.Refused:
		return admission.Denied(answer.Message)
	case answer.Message != "":
		return admission.Allowed("").WithWarnings(answer.Message)
	default:
		return admission.Allowed("")
	}
}
