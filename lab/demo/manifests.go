package demo

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The manifests are files, so that a reader sees what a user would write.
//
//go:embed manifests/*.yaml
var manifests embed.FS

// fieldOwner is kubectl's, so that a reader who applies a changed manifest by hand meets no conflict.
const fieldOwner = "kubectl"

// render returns the objects of a manifest with its ${NAMES} replaced; a name without a value is an error. A value
// stands alone and is written as a JSON string, which is YAML too, except within other text.
func render(name string, values map[string]string) ([]*unstructured.Unstructured, error) {
	text, err := manifests.ReadFile("manifests/" + name)
	if err != nil {
		return nil, fmt.Errorf("read the demo's manifest: %w", err)
	}
	var missing error
	filled := os.Expand(string(text), func(key string) string {
		value, ok := values[key]
		if !ok {
			missing = errors.Join(missing, fmt.Errorf("manifest %s: no value for ${%s}", name, key))
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			missing = errors.Join(missing, err)
		}
		if bytes.Equal(quoted, []byte(`"`+value+`"`)) {
			return value // nothing to quote
		}
		return string(quoted)
	})
	if missing != nil {
		return nil, missing
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(filled)), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode manifest %s: %w", name, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// apply does what kubectl apply --server-side does.
func apply(ctx context.Context, to client.Writer, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		err := to.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner(fieldOwner))
		if err != nil {
			return fmt.Errorf("apply %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
		}
	}
	return nil
}
