package controllers

import (
	"k8s.io/apimachinery/pkg/labels"

	"vmdisk.io/vmdisk/api/cdi"
)

// workers selects worker pods.
func workers() labels.Selector {
	return labels.SelectorFromSet(labels.Set{cdi.AppLabel: cdi.AppValue, cdi.ManagedByLabel: cdi.ManagedBy})
}
