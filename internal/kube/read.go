package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object is a pointer to a T that is an API object.
type Object[T any] interface {
	*T
	client.Object
}

// Find reads one object; nil: there is none.
func Find[T any, P Object[T]](ctx context.Context, from client.Reader, key types.NamespacedName) (P, error) {
	o := P(new(T))
	if err := from.Get(ctx, key, o); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("read %T %s: %w", *o, key, err)
	}
	return o, nil
}
