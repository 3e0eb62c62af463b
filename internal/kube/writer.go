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

// do carries out one action. A refusal is the API server's no to a request that it understood; any other error may pass.
func (w *Writer) do(ctx context.Context, a action.Action) (*action.Refusal, error) {
	err := w.perform(ctx, a)
	switch {
	case err == nil:
		return nil, nil
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return &action.Refusal{Action: a, Text: err.Error()}, nil
	default:
		return nil, fmt.Errorf("%s: %w", a, err)
	}
}

func (w *Writer) perform(ctx context.Context, a action.Action) error {
	switch a := a.(type) {
	case action.Create:
		err := w.client.Create(ctx, clone(a.Object))
		if apierrors.IsAlreadyExists(err) {
			return nil // the cache has not caught up; the next look finds it
		}
		return err
	case action.Delete:
		uid := a.Object.GetUID()
		err := w.client.Delete(ctx, clone(a.Object), client.Preconditions{UID: &uid})
		if apierrors.IsConflict(err) {
			return nil // another object has the name by now; this one is gone
		}
		return client.IgnoreNotFound(err)
	case action.Annotate:
		return w.patchMetadata(ctx, a.Object, map[string]any{"annotations": a.Annotations})
	case action.Own:
		owners := append(a.Object.GetOwnerReferences(), a.Owner)
		return w.patchMetadata(ctx, a.Object, map[string]any{"ownerReferences": owners})
	default:
		return fmt.Errorf("unknown action %T", a)
	}
}

// patchMetadata merges into an object's metadata. The resource version makes the server refuse an object that has changed since it was
// observed, or another one of its name.
func (w *Writer) patchMetadata(ctx context.Context, o action.Object, metadata map[string]any) error {
	metadata["resourceVersion"] = o.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	return w.client.Patch(ctx, clone(o), client.RawPatch(types.MergePatchType, patch))
}

// clone keeps the caches' and the callers' objects as they are: a client writes the server's answer into what it is given.
func clone(o action.Object) client.Object { return o.DeepCopyObject().(client.Object) }
