package populator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/kube"
	"vmdisk.io/vmdisk/internal/plan/populator"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

// ByUID is the field index of claims by their own UID, ByTarget that of volumes by the claim that they are on their way to.
const (
	ByUID    = "metadata.uid"
	ByTarget = v1alpha1.RebindAnnotation
)

// index is one of the look-ups that observe makes.
type index struct {
	of    client.Object
	field string
	by    client.IndexerFunc
}

func indexes() []index {
	return []index{
		{&corev1.PersistentVolumeClaim{}, ByUID, func(o client.Object) []string { return []string{string(o.GetUID())} }},
		{&corev1.PersistentVolume{}, ByTarget, func(o client.Object) []string {
			m, ok := rebind.MarkOf(o.(*corev1.PersistentVolume))
			if !ok {
				return nil
			}
			return []string{string(m.Target)}
		}},
	}
}

// Index prepares the look-ups.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, i := range indexes() {
		if err := indexer.IndexField(ctx, i.of, i.field, i.by); err != nil {
			return fmt.Errorf("index %T by %s: %w", i.of, i.field, err)
		}
	}
	return nil
}

// observe reads everything that the decision about a target needs.
func (r *Reconciler) observe(ctx context.Context, uid string) (populator.World, error) {
	w := populator.World{UID: types.UID(uid), Settings: r.Settings}
	var claims corev1.PersistentVolumeClaimList
	if err := r.Reader.List(ctx, &claims, client.MatchingFields{ByUID: uid}); err != nil {
		return w, fmt.Errorf("find claim %s: %w", uid, err)
	}
	if len(claims.Items) > 0 {
		w.Target = &claims.Items[0]
	}
	if err := r.disk(ctx, &w); err != nil {
		return w, err
	}
	if w.Target == nil {
		if err := r.reassure(ctx, &w); err != nil || w.Target == nil {
			return w, err
		}
	}
	if err := r.asked(ctx, &w); err != nil {
		return w, err
	}
	if waits := w.DataVolume == nil || w.DataVolume.Status.RestartCount > 0; waits && w.Target.Spec.VolumeName == "" {
		var err error
		if w.Line, err = r.line(ctx, w); err != nil {
			return w, err
		}
	}
	if err := r.inputs(ctx, &w); err != nil {
		return w, err
	}
	return w, r.confine(ctx, &w)
}

// disk reads what was made for a target: the temporary disk, and the volume.
func (r *Reconciler) disk(ctx context.Context, w *populator.World) (err error) {
	key := types.NamespacedName{Namespace: r.Settings.Namespace, Name: populator.Name(w.UID)}
	if w.DataVolume, err = kube.Find[cdiv1.DataVolume](ctx, r.Reader, key); err != nil {
		return err
	}
	if w.Temporary, err = kube.Find[corev1.PersistentVolumeClaim](ctx, r.Reader, key); err != nil {
		return err
	}
	var marked corev1.PersistentVolumeList
	if err := r.Reader.List(ctx, &marked, client.MatchingFields{ByTarget: string(w.UID)}); err != nil {
		return fmt.Errorf("find the volume for claim %s: %w", w.UID, err)
	}
	var name string
	switch {
	case len(marked.Items) > 0:
		w.Volume = &marked.Items[0]
		return nil
	case w.Temporary != nil && w.Temporary.Spec.VolumeName != "":
		name = w.Temporary.Spec.VolumeName
	case w.Target != nil && w.Target.Spec.VolumeName != "":
		name = w.Target.Spec.VolumeName
	default:
		return nil
	}
	w.Volume, err = kube.Find[corev1.PersistentVolume](ctx, r.Reader, types.NamespacedName{Name: name})
	return err
}

// reassure asks the API server itself for a target that the cache doesn't have, before what was made for it is removed.
func (r *Reconciler) reassure(ctx context.Context, w *populator.World) error {
	left := subject(*w)
	if left == nil {
		return nil
	}
	namespace, name, _ := strings.Cut(left.GetAnnotations()[v1alpha1.TargetAnnotation], "/")
	if m, ok := rebind.MarkOf(w.Volume); ok {
		namespace, name = m.Namespace, m.Name
	}
	if name == "" {
		return nil
	}
	target, err := kube.Find[corev1.PersistentVolumeClaim](ctx, r.Live, types.NamespacedName{Namespace: namespace, Name: name})
	if err == nil && target != nil && target.UID == w.UID {
		w.Target = target
	}
	return err
}

// asked reads what the target asks for.
func (r *Reconciler) asked(ctx context.Context, w *populator.World) (err error) {
	t := w.Target
	if t.Spec.DataSourceRef == nil { // it was found by what was made for it
		return nil
	}
	if w.Source, err = kube.Find[cdiv1.VolumeImportSource](ctx, r.Reader, types.NamespacedName{Namespace: t.Namespace, Name: t.Spec.DataSourceRef.Name}); err != nil {
		return err
	}
	if class := t.Spec.StorageClassName; class != nil && *class != "" {
		w.Class, err = kube.Find[storagev1.StorageClass](ctx, r.Reader, types.NamespacedName{Name: *class})
	}
	w.Inputs = populator.InputsOf(w.Source)
	return err
}

// inputs reads what the source names: the copies while there is a disk to be filled with them, the originals while they are to be copied.
func (r *Reconciler) inputs(ctx context.Context, w *populator.World) error {
	for i := range w.Inputs {
		in := &w.Inputs[i]
		begins := w.DataVolume == nil && w.Target.Spec.VolumeName == "" && w.Line.Of(w.UID).Now
		var err error
		if w.DataVolume != nil {
			if in.Copy, err = r.read(ctx, *in, r.Settings.Namespace, populator.CopyName(*w, i)); err != nil {
				return err
			}
		}
		if begins || w.DataVolume != nil && w.DataVolume.Status.Phase != cdiv1.Succeeded && in.Copy == nil {
			if in.Original, err = r.read(ctx, *in, w.Target.Namespace, in.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads a Secret or a ConfigMap from the API server itself: the populator may read one by name, and neither list nor watch them.
func (r *Reconciler) read(ctx context.Context, in populator.Input, namespace, name string) (action.Object, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if in.Secret {
		if secret, err := kube.Find[corev1.Secret](ctx, r.Live, key); err != nil || secret != nil {
			return secret, err
		}
		return nil, nil
	}
	if config, err := kube.Find[corev1.ConfigMap](ctx, r.Live, key); err != nil || config != nil {
		return config, err
	}
	return nil, nil
}

// confine adds the cluster's own addresses to those that the worker must not connect to.
func (r *Reconciler) confine(ctx context.Context, w *populator.World) error {
	if w.DataVolume != nil || w.Target.Spec.VolumeName != "" || !w.Line.Of(w.UID).Now {
		return nil
	}
	var nodes corev1.NodeList
	if err := r.Live.List(ctx, &nodes); err != nil {
		return fmt.Errorf("list the nodes' addresses: %w", err)
	}
	var services networkingv1.ServiceCIDRList
	if err := r.Live.List(ctx, &services); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) { // older clusters don't serve them
		return fmt.Errorf("list the services' addresses: %w", err)
	}
	w.Settings.Egress.Deny = slices.Concat(r.Settings.Egress.Deny, populator.ClusterRanges(nodes.Items, services.Items))
	return nil
}

// targets reads the claims that have no volume yet.
func (r *Reconciler) targets(ctx context.Context) ([]corev1.PersistentVolumeClaim, error) {
	var all corev1.PersistentVolumeClaimList
	if err := r.Reader.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(c corev1.PersistentVolumeClaim) bool { return !populator.Wants(&c) || c.Spec.VolumeName != "" }), nil
}

// line reads who else wants to be filled, and the quotas that limit it.
func (r *Reconciler) line(ctx context.Context, self populator.World) (populator.Line, error) {
	var line populator.Line
	targets, err := r.targets(ctx)
	if err != nil {
		return line, err
	}
	for i := range targets {
		w := populator.World{UID: targets[i].UID, Target: &targets[i], Settings: r.Settings}
		if err := r.disk(ctx, &w); err != nil {
			return line, err
		}
		if err := r.asked(ctx, &w); err != nil {
			return line, err
		}
		if waiting, ok := populator.WaitingOf(w); ok && (w.UID == self.UID || !populator.Lacks(w.Target)) {
			line.Waiting = append(line.Waiting, waiting)
		}
		if w.DataVolume != nil {
			running := populator.Running{Namespace: w.Target.Namespace}
			if w.Temporary == nil {
				running.Claim = w.DataVolume.Spec.PVC
			}
			line.Running = append(line.Running, running)
		}
	}
	var quotas corev1.ResourceQuotaList
	if err := r.Reader.List(ctx, &quotas, client.InNamespace(r.Settings.Namespace)); err != nil {
		return line, fmt.Errorf("list quotas: %w", err)
	}
	line.Quotas = quotas.Items
	return line, nil
}
