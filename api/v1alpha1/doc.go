// Package v1alpha1 is the tenant's API: VMDisk, a disk for a virtual machine.
//
// +kubebuilder:object:generate=true
// +groupName=vmdisk.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this API.
var GroupVersion = schema.GroupVersion{Group: "vmdisk.io", Version: "v1alpha1"}

// AddToScheme makes the types of this package known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &VMDisk{}, &VMDiskList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
