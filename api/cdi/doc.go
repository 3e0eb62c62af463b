// Package cdi is the CDI contract as vmdisk serves it: the published API types under a short name, and every
// annotation, label, reason and name that CDI's users read or write, in one place. docs/COMPAT.md says who reads each.
package cdi

import (
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// AddToScheme makes the types of cdi.kubevirt.io/v1beta1 known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error { return v1beta1.AddToScheme(scheme) }
