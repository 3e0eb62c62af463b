// Package kube is the only writer: it carries out the actions of a decision, then patches the status once, then publishes the
// events. Reconcilers hold a client.Reader and a Writer, and nothing else that could change the cluster.
package kube

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		err := w.client.Create(ctx, clone(a.Object))
		if apierrors.IsAlreadyExists(err) {
			return nil, nil // the cache has not caught up; the next look finds it
		}
		return nil, err
	case action.Delete:
		uid := a.Object.GetUID()
		err := w.client.Delete(ctx, clone(a.Object), client.Preconditions{UID: &uid})
		if apierrors.IsConflict(err) {
			return nil, nil // another object has the name by now; this one is gone
		}
		return nil, client.IgnoreNotFound(err)
	case action.Annotate:
		return w.patchMetadata(ctx, a.Object, map[string]any{"annotations": a.Annotations})
	case action.Own:
		owners := append(a.Object.GetOwnerReferences(), a.Owner)
		return w.patchMetadata(ctx, a.Object, map[string]any{"ownerReferences": owners})
	case action.Reclaim:
		var mark any // null removes an annotation
		if a.Mark != "" {
			mark = a.Mark
		}
		return w.patch(ctx, a.Volume, map[string]any{"annotations": map[string]any{a.Key: mark}},
			map[string]any{"persistentVolumeReclaimPolicy": a.Policy})
	case action.Hand:
		return w.patch(ctx, a.Volume, map[string]any{}, map[string]any{"claimRef": map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"namespace": a.Claim.Namespace, "name": a.Claim.Name, "uid": a.Claim.UID, "resourceVersion": nil,
		}})
	default:
		return nil, fmt.Errorf("unknown action %T", a)
	}
}

func (w *Writer) patchMetadata(ctx context.Context, o action.Object, metadata map[string]any) (client.Object, error) {
	return w.patch(ctx, o, metadata, nil)
}

// patch merges into an object's metadata and spec. The resource version makes the server refuse an object that has changed since it was
// observed, or another one of its name.
func (w *Writer) patch(ctx context.Context, o action.Object, metadata, spec map[string]any) (client.Object, error) {
	metadata["resourceVersion"] = o.GetResourceVersion()
	merge := map[string]any{"metadata": metadata}
	if spec != nil {
		merge["spec"] = spec
	}
	patch, err := json.Marshal(merge)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	after := clone(o)
	return after, w.client.Patch(ctx, after, client.RawPatch(types.MergePatchType, patch))
}

// clone keeps the caches' and the callers' objects as they are: a client writes the server's answer into what it is given.
func clone(o action.Object) client.Object { return o.DeepCopyObject().(client.Object) }
