package storageprofile

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/profile"
)

// lister answers every List with its items, or its error.
type lister struct {
	client.Reader
	items []unstructured.Unstructured
	err   error
}

func (l lister) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*unstructured.UnstructuredList).Items = l.items
	return l.err
}

func TestSnapshotDrivers(t *testing.T) {
	class := func(driver any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"driver": driver, "metadata": map[string]any{"name": "c"}}}
	}
	for name, c := range map[string]struct {
		from  lister
		want  profile.Cluster
		fails string
	}{
		"each class names its driver":        {from: lister{items: []unstructured.Unstructured{class("a"), class("b")}}, want: profile.Cluster{SnapshotDrivers: []string{"a", "b"}}},
		"what is not served has no classes":  {from: lister{err: &meta.NoKindMatchError{GroupKind: clone.SnapshotClass().GroupKind()}}},
		"another error is one":               {from: lister{err: errors.New("no")}, fails: "list VolumeSnapshotClasses: no"},
		"a driver that is not text is wrong": {from: lister{items: []unstructured.Unstructured{class(1)}}, fails: "read VolumeSnapshotClass c: .driver accessor error: 1 is of the type int, expected string"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := (&Reconciler{Snapshots: c.from}).cluster(t.Context())
			var failed string
			if err != nil {
				failed = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" || failed != c.fails {
				t.Errorf("error %q, want %q; (-want +got):\n%s", failed, c.fails, diff)
			}
		})
	}
}
