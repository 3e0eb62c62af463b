//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// TestScratch: an image that can't be decoded in one pass, from a server that can't be asked for a part of it, is refused by name. Once the
// administrator allows scratch, the same disk is tried again and filled, in the same quota of one claim.
func TestScratch(t *testing.T) {
	n := newTenant(t)
	n.reportsQuotas(quantity(diskBytes))
	usage := n.measure()
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL("norange/" + lateFile), Checksum: "sha256:" + imageSum(t, lateFile)}))
	n.says("disk", filled, "its tables behind the data", "answers range requests", "--scratch-size")
	if phase := get(n, "disk", &v1alpha1.VMDisk{}).Status.Phase; phase != string(cdiv1.Failed) {
		t.Errorf("its phase is %s", phase)
	}

	n.controllerFlags(func(flags []string) []string { return append(flags, "--scratch-size=1Gi") })
	t.Cleanup(func() {
		n.controllerFlags(func(flags []string) []string {
			return slices.DeleteFunc(flags, func(f string) bool { return f == "--scratch-size=1Gi" })
		})
	})
	disk := get(n, "disk", &v1alpha1.VMDisk{})
	before := client.MergeFrom(disk.DeepCopy())
	metav1.SetMetaDataAnnotation(&disk.ObjectMeta, v1alpha1.RetryAnnotation, "now")
	if err := n.Patch(t.Context(), disk, before); err != nil {
		t.Fatal(err)
	}
	n.eventually(soon, "it is tried again", func() error {
		if phase := get(n, "disk", &v1alpha1.VMDisk{}).Status.Phase; phase == string(cdiv1.Failed) {
			return fmt.Errorf("its phase is %s", phase)
		}
		return nil
	})
	n.becomesReady("disk")
	n.holds("disk", diskBytes, reference(t), dataBytes(n))
	usage.wasExactly(n, diskBytes)
}

// controllerFlags changes the controller's flags, and waits until a controller with them is the only one.
func (n *tenant) controllerFlags(change func([]string) []string) {
	n.t.Helper()
	ctx := context.WithoutCancel(n.t.Context()) // also to repair what a failed test has left
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: vmdiskNamespace, Name: "vmdisk-controller"}
	if err := n.Get(ctx, key, d); err != nil {
		n.t.Fatalf("read the controller's Deployment: %v", err)
	}
	before := client.MergeFrom(d.DeepCopy())
	c := &d.Spec.Template.Spec.Containers[0]
	c.Args = change(slices.Clone(c.Args))
	if err := n.Patch(ctx, d, before); err != nil {
		n.t.Fatalf("change the controller's flags: %v", err)
	}
	n.eventually(filled, "the controller has its new flags", func() error {
		if err := n.Get(ctx, key, d); err != nil {
			return err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 1 || s.Replicas != 1 || s.AvailableReplicas != 1 {
			return fmt.Errorf("its Deployment is at %+v", s)
		}
		return nil
	})
}
