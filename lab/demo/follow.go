package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errEnough ends follow without an error.
var errEnough = errors.New("enough seen")

// reopenAfter is the pause before a broken watch is opened again.
const reopenAfter = time.Second

// follow calls see with every change of the objects that list and options select, starting with those that exist, until
// see returns an error (errEnough for a good end) or ctx ends, which is an error too. A watch that the server ends is
// opened again: see is then called with the objects that exist once more, after restart.
func follow(ctx context.Context, c client.WithWatch, list client.ObjectList, options []client.ListOption,
	restart func(), see func(watch.EventType, client.Object) error) error {
	for {
		restart()
		err := followOnce(ctx, c, list, options, see)
		switch {
		case errors.Is(err, errEnough):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, errWatch):
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(reopenAfter):
		}
	}
}

// errWatch marks the errors of the watch itself, as opposed to those of its viewer.
var errWatch = errors.New("watch")

func followOnce(ctx context.Context, c client.WithWatch, list client.ObjectList, options []client.ListOption,
	see func(watch.EventType, client.Object) error) error {
	events, err := c.Watch(ctx, list, options...)
	if err != nil {
		return fmt.Errorf("%w: %w", errWatch, err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok || event.Type == watch.Error || event.Type == watch.Bookmark {
			continue // after an error the server ends the watch
		}
		if err := see(event.Type, object); err != nil {
			return err
		}
	}
	return nil
}
