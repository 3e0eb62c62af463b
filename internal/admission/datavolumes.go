package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/plan/spec"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// dataVolumes answers for DataVolumes that are created, and for those whose spec is changed.
type dataVolumes struct {
	reader  client.Reader
	decoder admission.Decoder
}

// Handle refuses what CDI refuses. What is right, and not served by this version, is let in with a warning: its conditions say the same.
func (d *dataVolumes) Handle(ctx context.Context, request admission.Request) admission.Response {
	var now, old cdiv1.DataVolume
	err := d.decoder.Decode(request, &now)
	if err == nil && request.Operation == admissionv1.Update {
		err = d.decoder.DecodeRaw(request.OldObject, &old)
	}
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the DataVolume: %w", err))
	}
	if request.Operation == admissionv1.Update {
		return refused(spec.Changed(old.Spec, now.Spec))
	}
	claim, err := kube.Find[corev1.PersistentVolumeClaim](ctx, d.reader, client.ObjectKey{Namespace: request.Namespace, Name: now.Name})
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("look whether DataVolume %s has a claim already: %w: try again", now.Name, err))
	}
	answer := refused(spec.Created(&now, claim))
	if invalid := new(volume.Invalid); answer.Allowed && errors.As(populate.Served("the DataVolume", now.Spec), &invalid) {
		return answer.WithWarnings(invalid.Message)
	}
	return answer
}

// refused is the answer for what is wrong: a status as of an object that is invalid, with a cause for each field.
func refused(causes []metav1.StatusCause) admission.Response {
	if len(causes) == 0 {
		return admission.Allowed("")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &metav1.Status{
		Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: spec.Message(causes),
		Details: &metav1.StatusDetails{Group: cdiv1.SchemeGroupVersion.Group, Kind: "DataVolume", Causes: causes},
	}}}
}
