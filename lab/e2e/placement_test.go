//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// A disk is made where its placement says. A placement that no node answers to is told in the scheduler's words, and can be mended.
func TestPlacement(t *testing.T) {
	t.Parallel()
	on := func(node string) *v1alpha1.Placement {
		return &v1alpha1.Placement{NodeSelector: map[string]string{corev1.LabelHostname: node}}
	}
	for _, node := range []string{"node-a", "node-b"} {
		t.Run("on "+node, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			disk := newDisk(blockLocal, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)})
			disk.Spec.Placement = on(node)
			n.create(disk)
			n.becomesReady("disk")
			n.isOn("disk", node)
		})
	}
	t.Run("by an affinity", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		disk := newDisk(filesLater, nil)
		disk.Spec.Placement = &v1alpha1.Placement{Affinity: onNode("node-b")}
		n.create(disk)
		n.becomesReady("disk")
		n.isOn("disk", "node-b")
	})
	t.Run("on no node, until that is mended", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		disk := newDisk(blockLocal, nil)
		disk.Spec.Placement = on("node-z")
		n.create(disk)
		n.says("disk", told, "no node takes the worker", "0/2 nodes are available", "didn't match Pod's node affinity/selector")
		disk = get(n, "disk", &v1alpha1.VMDisk{})
		before := client.MergeFrom(disk.DeepCopy())
		disk.Spec.Placement = on("node-b")
		if err := n.Patch(t.Context(), disk, before); err != nil {
			t.Fatal(err)
		}
		n.becomesReady("disk")
		n.isOn("disk", "node-b")
	})
}
