// Package kube is the only writer: it carries out the actions of a decision, then patches the status once, then publishes the
// events. Reconcilers hold a client.Reader and a Writer, and nothing else that could change the cluster.
package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/action"
)

// Writer carries out decisions.
type Writer struct {
	client   client.Client
	recorder events.EventRecorder
}

// NewWriter makes a Writer. Both arguments are safe for concurrent use, and so is the Writer.
func NewWriter(c client.Client, recorder events.EventRecorder) *Writer {
	return &Writer{client: c, recorder: recorder}
}

// do carries out one action, and answers the object as the server has it then, where it is one that was there before. A refusal is the
// API server's no to a request that it understood; any other error may pass.
func (w *Writer) do(ctx context.Context, a action.Action) (client.Object, *action.Refusal, error) {
	after, err := w.perform(ctx, a)
	switch {
	case err == nil:
		return after, nil, nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return nil, &action.Refusal{Action: a, Text: err.Error()}, nil
	default:
		return nil, nil, fmt.Errorf("%s: %w", a, err)
	}
}

func (w *Writer) perform(ctx context.Context, a action.Action) (client.Object, error) {
	switch a := a.(type) {
	case action.Create:
		err := w.client.Create(ctx, copyOf(a.Object))
		if apierrors.IsAlreadyExists(err) {
			return nil, nil // the cache has not caught up; the next look finds it
		}
		return nil, err
	case action.Delete:
		uid := a.Object.GetUID()
		err := w.client.Delete(ctx, copyOf(a.Object), client.Preconditions{UID: &uid})
		if apierrors.IsConflict(err) {
			return nil, nil // another object has the name by now; this one is gone
		}
		return nil, client.IgnoreNotFound(err)
	case action.Annotate:
		return w.patch(ctx, a.Object, change{metadata: map[string]any{"annotations": a.Annotations}})
	case action.Own:
		owners := append(a.Object.GetOwnerReferences(), a.Owner)
		return w.patch(ctx, a.Object, change{metadata: map[string]any{"ownerReferences": owners}})
	case action.Expand:
		size := resource.NewQuantity(a.Bytes, resource.BinarySI)
		return w.patch(ctx, a.Claim, change{
			metadata: map[string]any{"annotations": a.Annotations},
			spec:     map[string]any{"resources": map[string]any{"requests": map[string]any{string(corev1.ResourceStorage): size}}},
		})
	case action.Reclaim:
		var mark any // null removes an annotation
		if a.Mark != "" {
			mark = a.Mark
		}
		return w.patch(ctx, a.Volume, change{
			metadata: map[string]any{"annotations": map[string]any{a.Key: mark}},
			spec:     map[string]any{"persistentVolumeReclaimPolicy": a.Policy},
		})
	case action.Hand:
		return w.patch(ctx, a.Volume, change{metadata: map[string]any{}, spec: map[string]any{"claimRef": map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"namespace": a.Claim.Namespace, "name": a.Claim.Name, "uid": a.Claim.UID, "resourceVersion": nil,
		}}})
	default:
		return nil, fmt.Errorf("unknown action %T", a)
	}
}

// change is what is merged into an object; a nil spec is left alone.
type change struct{ metadata, spec map[string]any }

// patch merges a change into an object. The resource version makes the server refuse an object that has changed since it was observed, or
// another one of its name.
func (w *Writer) patch(ctx context.Context, o action.Object, c change) (client.Object, error) {
	c.metadata["resourceVersion"] = o.GetResourceVersion()
	merged := map[string]any{"metadata": c.metadata}
	if c.spec != nil {
		merged["spec"] = c.spec
	}
	patch, err := json.Marshal(merged)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	after := copyOf(o)
	return after, w.client.Patch(ctx, after, client.RawPatch(types.MergePatchType, patch))
}

// clone keeps the caches' and the callers' objects as they are: a client writes the server's answer into what it is given.
func copyOf(o action.Object) client.Object { return o.DeepCopyObject().(client.Object) }
