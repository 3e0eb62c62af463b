// Package config holds vmdisk's installation: the CRDs and the manifests, as plain YAML that kubectl applies too, and
// the functions that programs get them from. It must not know how they are applied, nor to which cluster.
package config

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed crd/*.yaml manifests/*.yaml populator/*.yaml
var files embed.FS

// DefaultImage is the image that the manifests name, for the controller and for its workers.
const DefaultImage = "vmdisk:latest"

// CRDs are the kinds that vmdisk serves. They must be established before Manifests can be applied.
func CRDs() ([]*unstructured.Unstructured, error) {
	return objects("crd", DefaultImage)
}

// Manifests are vmdisk's own objects in the order in which they are to be applied. The controller and its workers run
// the given image.
func Manifests(image string) ([]*unstructured.Unstructured, error) {
	return objects("manifests", image)
}

// Populator are the objects of the populator, which is part of an installation only where somebody wants it. They go on top of Manifests.
func Populator(image string) ([]*unstructured.Unstructured, error) {
	return objects("populator", image)
}

// objects reads every document of every file in a folder, in the order of the files' names.
func objects(folder, image string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, folder+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", folder, err)
	}
	var all []*unstructured.Unstructured
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		some, err := decode(strings.ReplaceAll(string(text), DefaultImage, image))
		if err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// decode reads the documents of one YAML text; those that hold only comments are left out.
func decode(text string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}
