package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/internal/plan/clone"
)

// look reads what the plan is made from: files, or the cluster. It sets the namespace, and whether there are snapshots.
func (o *planOptions) look(ctx context.Context) (clone.Cluster, error) {
	if len(o.files) > 0 {
		if o.namespace == "" {
			o.namespace = "default"
		}
		return o.readFiles()
	}
	cluster, err := o.connect()
	if err != nil {
		return clone.Cluster{}, err
	}
	return o.readCluster(ctx, cluster.reader)
}

// readCluster lists every kind that a plan reads. A kind that the cluster doesn't serve has no objects.
func (o *planOptions) readCluster(ctx context.Context, reader client.Reader) (clone.Cluster, error) {
	var cluster clone.Cluster
	for _, kind := range clone.Kinds() {
		objects := &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind + "List"})
		err := reader.List(ctx, objects)
		switch {
		case meta.IsNoMatchError(err):
			o.NoSnapshotAPI = o.NoSnapshotAPI || kind.Kind == "VolumeSnapshotClass"
		case apierrors.IsForbidden(err) && kind.Kind == "CSIStorageCapacity":
			fmt.Fprintln(o.stderr, "vmdisk: you may not list CSIStorageCapacities: which nodes have room for the disk is not known")
		case err != nil:
			return clone.Cluster{}, fmt.Errorf("list %s objects, which a plan rests on: %w: if you may not, ask an administrator for a file with them, and use -f", kind.Kind, err)
		}
		for _, object := range objects.Items {
			object.SetGroupVersionKind(kind)
			if _, err := cluster.Add(object.Object); err != nil {
				return clone.Cluster{}, err
			}
		}
	}
	return cluster, nil
}

func (o *planOptions) readFiles() (clone.Cluster, error) {
	var cluster clone.Cluster
	for _, name := range o.files {
		in := io.NopCloser(o.stdin)
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return clone.Cluster{}, err
			}
			in = f
		}
		err := o.readObjects(in, &cluster)
		_ = in.Close() // it was only read
		if err != nil {
			return clone.Cluster{}, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return cluster, nil
}

// readObjects reads YAML documents, JSON objects and lists of objects.
func (o *planOptions) readObjects(in io.Reader, cluster *clone.Cluster) error {
	d := yaml.NewYAMLOrJSONDecoder(bufio.NewReader(in), 64<<10)
	for n := 1; ; n++ {
		var object map[string]any
		switch err := d.Decode(&object); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("document %d: %w", n, err)
		}
		if err := o.add(object, cluster); err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
}

func (o *planOptions) add(object map[string]any, cluster *clone.Cluster) error {
	if items, ok := object["items"].([]any); ok {
		for i, item := range items {
			one, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("item %d of the list is no object", i+1)
			}
			if err := o.add(one, cluster); err != nil {
				return err
			}
		}
		return nil
	}
	if metadata, ok := object["metadata"].(map[string]any); ok && clone.Namespaced(object["kind"]) {
		if namespace, ok := metadata["namespace"].(string); !ok || namespace == "" {
			metadata["namespace"] = o.namespace
		}
	}
	_, err := cluster.Add(object) // kinds that a plan doesn't read may be there, too
	return err
}
