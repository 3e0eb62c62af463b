package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDecode(t *testing.T) {
	object := func(kind, name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": name}}}
	}
	tests := map[string]struct {
		text string
		want []*unstructured.Unstructured
		err  bool
	}{
		"documents come in their order": {
			text: "kind: Namespace\nmetadata: {name: b}\n---\nkind: Secret\nmetadata: {name: a}\n",
			want: []*unstructured.Unstructured{object("Namespace", "b"), object("Secret", "a")},
		},
		"what holds only comments is no object": {
			text: "# the first\n---\nkind: Secret\nmetadata: {name: a}\n---\n# the end\n",
			want: []*unstructured.Unstructured{object("Secret", "a")},
		},
		"what is no YAML is told": {text: "kind: [", err: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(test.text))
			if (err != nil) != test.err {
				t.Fatalf("error %v, want one: %t", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}
