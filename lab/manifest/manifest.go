// Package manifest reads Kubernetes objects from YAML and applies them, as kubectl apply --server-side does. It must not
// know what the objects are.
package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Decode reads the documents of a YAML text, in their order; those that hold only comments are left out.
func Decode(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode object %d: %w", len(objects)+1, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Apply makes the objects, one after another, or brings them up to date. The owner's name is kept with the fields that it
// sets; who owned one of them before no longer does. The objects stay as they are, so that it can be tried again.
func Apply(ctx context.Context, to client.Writer, owner string, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		// A copy, because the answer is written into what is sent, and could not be sent again.
		sent := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
		if err := to.Apply(ctx, sent, client.ForceOwnership, client.FieldOwner(owner)); err != nil {
			name := strings.TrimPrefix(client.ObjectKeyFromObject(object).String(), "/")
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), name, err)
		}
	}
	return nil
}
