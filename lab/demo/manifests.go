package demo

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/manifest"
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
	objects, err := manifest.Decode([]byte(filled))
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", name, err)
	}
	return objects, nil
}

// apply makes the objects as a reader would, with kubectl.
func apply(ctx context.Context, to client.Writer, objects []*unstructured.Unstructured) error {
	return manifest.Apply(ctx, to, fieldOwner, objects)
}
