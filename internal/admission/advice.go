package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/advice"
)

// adviser warns of what a VMDisk that is created will meet.
type adviser struct {
	reader  client.Reader
	decoder admission.Decoder
	// defaultClass is the class of a disk that names none; empty: the cluster's own default.
	defaultClass string
}

// Handle lets every disk in. What can't be read is logged and not answered: an error would deny the disk, whatever the failurePolicy says.
func (a *adviser) Handle(ctx context.Context, request admission.Request) admission.Response {
	w := advice.World{DefaultClass: a.defaultClass}
	err := a.decoder.Decode(request, &w.Disk)
	if err == nil {
		w.Disk.Namespace = request.Namespace
		err = a.observe(ctx, &w)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "a new VMDisk gets no advice", "namespace", request.Namespace, "name", request.Name)
		return admission.Allowed("")
	}
	return admission.Allowed("").WithWarnings(advice.For(w)...)
}

// observe reads what advice rests on.
func (a *adviser) observe(ctx context.Context, w *advice.World) error {
	var errs [4]error
	key := client.ObjectKeyFromObject(&w.Disk)
	w.DataVolume, errs[0] = kube.Find[cdiv1.DataVolume](ctx, a.reader, key)
	w.Claim, errs[1] = kube.Find[corev1.PersistentVolumeClaim](ctx, a.reader, key)
	w.Volumes, _, errs[2] = kube.Cluster(ctx, a.reader)
	errs[3] = list(ctx, a.reader, &corev1.NodeList{}, func(l *corev1.NodeList) { w.Nodes = l.Items })
	return errors.Join(errs[:]...)
}

func list[L client.ObjectList](ctx context.Context, from client.Reader, into L, take func(L), options ...client.ListOption) error {
	if err := from.List(ctx, into, options...); err != nil {
		return fmt.Errorf("list %T: %w", into, err)
	}
	take(into)
	return nil
}
