package volume

import (
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"vmdisk.io/vmdisk/api/cdi"
)

// pickDefault chooses the class of a claim that names none; nil where there is none.
type pickDefault func([]storagev1.StorageClass) *storagev1.StorageClass

// classNamed finds a claim's class. The empty name is a claim for a volume without a class, and finds nil.
func classNamed(name *string, classes []storagev1.StorageClass, pick pickDefault) (*storagev1.StorageClass, error) {
	switch {
	case name == nil:
		return pick(classes), nil
	case *name == "":
		return nil, nil
	}
	i := slices.IndexFunc(classes, func(c storagev1.StorageClass) bool { return c.Name == *name })
	if i < 0 {
		return nil, invalid("StorageClass %q does not exist: use one of %s, or ask the administrator to create it", *name, NamesOf(classes))
	}
	return &classes[i], nil
}

// NamesOf lists the names of classes, for a message.
func NamesOf(classes []storagev1.StorageClass) string {
	if len(classes) == 0 {
		return "(there are none)"
	}
	var names []string
	for _, c := range classes {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// VirtDefault is the default class for virtual machines' disks, else the cluster's default.
func VirtDefault(classes []storagev1.StorageClass) *storagev1.StorageClass {
	if c := annotated(classes, cdi.DefaultVirtClass); c != nil {
		return c
	}
	return ClusterDefault(classes)
}

// ClusterDefault is the class that Kubernetes itself would take.
func ClusterDefault(classes []storagev1.StorageClass) *storagev1.StorageClass {
	return annotated(classes, cdi.DefaultClass)
}

// Marked are the names, in order, of the classes with an annotation "true".
func Marked(classes []storagev1.StorageClass, key string) []string {
	var names []string
	for _, c := range classes {
		if c.Annotations[key] == "true" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// annotated is the class with an annotation "true"; of several the newest, then the first by name, as Kubernetes does.
func annotated(classes []storagev1.StorageClass, key string) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for i := range classes {
		c := &classes[i]
		if c.Annotations[key] == "true" && (found == nil || before(c, found)) {
			found = c
		}
	}
	return found
}

func before(a, b *storagev1.StorageClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}
