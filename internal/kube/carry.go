package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vmdisk.io/vmdisk/internal/action"
)

// Plan decides. It is called again with the refusal when an action of its first decision was refused; the actions of that second
// decision are not carried out.
type Plan[Status any] func(refusal *action.Refusal) action.Decision[Status]

// Target is the object whose status a decision is about.
type Target[Status any] struct {
	// Object is as observed, and is not changed.
	Object client.Object
	// Status points at the status within an object of the same type.
	Status func(client.Object) *Status
	// Whole says that the object's kind has no status subresource: its status is an ordinary field.
	Whole bool
}

// staleAgain is how long to wait for the caches when an object has changed since it was observed.
const staleAgain = 100 * time.Millisecond

// Carry carries a plan out: the actions in order, then one status patch if anything changed, then the events. An object that has
// changed since it was observed ends the pass, and the next one decides anew; so an event is never told from an old status.
func Carry[Status any](ctx context.Context, w *Writer, t Target[Status], plan Plan[Status]) (reconcile.Result, error) {
	decision := plan(nil)
	version := t.Object.GetResourceVersion()
	for _, a := range decision.Actions {
		log.FromContext(ctx).Info("acting", "action", a.String())
		after, refusal, err := w.do(ctx, a)
		if err != nil {
			return stale(err)
		}
		if refusal != nil {
			decision = plan(refusal)
			break
		}
		if after != nil && after.GetUID() == t.Object.GetUID() {
			version = after.GetResourceVersion()
		}
	}
	if err := patchStatus(ctx, w, t, version, decision.Status); err != nil {
		return stale(err)
	}
	w.publish(t.Object, decision.Events)
	return reconcile.Result{RequeueAfter: decision.Again}, nil
}

// stale turns the error of a write to an object that has changed meanwhile into another look.
func stale(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: staleAgain}, nil
	}
	return reconcile.Result{}, err
}

// publish tells the events. The recorder counts an event that it has told of the same object before, and takes an object of another
// resource version for another one: so that isn't passed on.
func (w *Writer) publish(about client.Object, events []action.Event) {
	about = about.DeepCopyObject().(client.Object)
	about.SetResourceVersion("")
	for _, e := range events {
		w.recorder.Eventf(about, nil, e.Type, e.Reason, "Reconcile", "%s", e.Message)
	}
}

// patchStatus writes the status if it is another one, and if the object is still of the version.
func patchStatus[Status any](ctx context.Context, w *Writer, t Target[Status], version string, status Status) error {
	before := t.Object.DeepCopyObject().(client.Object)
	before.SetResourceVersion(version)
	changed := before.DeepCopyObject().(client.Object)
	if equality.Semantic.DeepEqual(*t.Status(changed), status) {
		return nil
	}
	*t.Status(changed) = status
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	var err error
	if t.Whole {
		err = w.client.Patch(ctx, changed, patch)
	} else {
		err = w.client.Status().Patch(ctx, changed, patch)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("patch status: %w", err)
	}
	return nil
}

func gone(err error) bool { return client.IgnoreNotFound(err) == nil }

// Annotate sets annotations on an object for a person. An object that has changed since it was read is a conflict.
func Annotate(ctx context.Context, w *Writer, o action.Object, annotations map[string]string) error {
	_, refusal, err := w.do(ctx, action.Annotate{Object: o, Annotations: annotations})
	if refusal != nil {
		err = errors.New(refusal.Text)
	}
	return err
}

// Make creates an object that a controller keeps; its creation wakes the controller again.
func Make(ctx context.Context, w *Writer, o action.Object) (reconcile.Result, error) {
	_, refusal, err := w.do(ctx, action.Create{Object: o})
	if refusal != nil {
		err = fmt.Errorf("%s: %s", refusal.Action, refusal.Text)
	}
	return reconcile.Result{}, err
}
