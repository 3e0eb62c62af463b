//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/csi"
)

// ofImage is a disk of an image in a class, as large as the image.
func ofImage(g *golden, class string, change ...func(*v1alpha1.VMDisk)) *v1alpha1.VMDisk {
	disk := newDisk(class, nil)
	disk.Spec.Source, disk.Spec.Storage = &v1alpha1.Source{Image: &v1alpha1.NamedSource{Name: g.image}}, nil
	for _, c := range change {
		c(disk)
	}
	return disk
}

// made is how a disk says that it was made.
func (n *tenant) made(name string) v1alpha1.CloneStatus {
	n.t.Helper()
	if c := get(n, name, &v1alpha1.VMDisk{}).Status.Clone; c != nil {
		return *c
	}
	return v1alpha1.CloneStatus{}
}

// A disk of a golden image in whatever class is made by the driver where that is safe and otherwise by a copy, says so, and costs its tenant one claim of its
// size. The first is the report behind vmdisk: an image in a replicated class, a disk in a node-local one, and a wish for clones by the driver.
func TestDiskOfAnImage(t *testing.T) {
	t.Parallel()
	larger := func(d *v1alpha1.VMDisk) { d.Spec.Storage = new(resource.MustParse("768Mi")) }
	tests := map[string]struct {
		to, wish string
		change   func(*v1alpha1.VMDisk)
		strategy string
		copied   bool
		bytes    int64
	}{
		"in a node-local class, where a clone would hang": {blockLocal, "csi-clone", nil, "host-assisted", true, diskBytes},
		"in the image's own class":                        {blockNow, "csi-clone", nil, "csi-clone", false, diskBytes},
		"in the image's own class, and larger":            {blockNow, "csi-clone", larger, "csi-clone", false, 768 << 20},
		"by a snapshot":                                   {blockLater, "snapshot", nil, "snapshot", false, diskBytes},
		"in another driver's class":                       {filesNow, "copy", nil, "host-assisted", true, 0},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			g := n.newGolden(blockNow)
			g.leftAlone(g.claim)
			bytes := c.bytes
			if bytes == 0 {
				bytes = claimBytes(c.to)
			}
			n.reportsQuotas(quantity(bytes))
			usage, work := n.measure(), n.countWork()
			disk := ofImage(g, n.cloningClass(c.to, c.wish))
			if c.change != nil {
				c.change(disk)
			}
			n.create(disk)
			n.becomesReady("disk")
			if made := n.made("disk"); made.Strategy != c.strategy || made.Reason == "" || made.Message == "" || made.FellBack {
				t.Errorf("it was made like this: %+v", made)
			}
			if got := work.amount(); (got.Written > 0) != c.copied {
				t.Errorf("the workers were %+v", got)
			}
			n.beginsWith("disk", reference(t))
			usage.wasExactly(n, bytes)
			n.leavesOnly(append(g.objects(), get(n, "disk", disk), get(n, "disk", &cdiv1.DataVolume{}), get(n, "disk", &corev1.PersistentVolumeClaim{}))...)
		})
	}
}

// volumeSource is what the storage knows the image's volume by, where another is made from it.
func (g *golden) volumeSource() string {
	g.t.Helper()
	return "volume/" + get(g.tenant, g.claim, &corev1.PersistentVolumeClaim{}).Spec.VolumeName
}

// What the driver says no to is copied, and the tenant reads the driver's words on the disk.
func TestDiskOfAnImageFallsBack(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	g := n.newGolden(blockNow)
	n.faults(csi.Fault{Method: "CreateVolume", Source: g.volumeSource(), Code: codes.InvalidArgument, Message: "not today"})
	n.create(ofImage(g, n.cloningClass(blockNow, "csi-clone")))
	n.becomesReady("disk")
	if made := n.made("disk"); !made.FellBack || made.Reason != "DriverRejectedClone" || made.Strategy != "host-assisted" {
		t.Errorf("it was made like this: %+v", made)
	}
	n.beginsWith("disk", reference(t))
}

// A disk that rests for its consumer is made on the node that this is given, and bound only when it is whole.
func TestDiskOfAnImageForAConsumerOnNodeB(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	g := n.noGolden()
	disk := ofImage(g, blockLocal, func(d *v1alpha1.VMDisk) { d.Spec.BindImmediately = new(false) })
	n.create(disk)
	n.says("disk", filled, g.image, "does not exist")
	g.fill(blockNow, plainURL(qcow2File))
	g.succeeds(g.claim)
	n.eventually(filled, "it rests for its consumer", func() error {
		if d := get(n, "disk", &v1alpha1.VMDisk{}); d.Status.Phase != string(cdiv1.PendingPopulation) {
			return fmt.Errorf("its phase is %s", d.Status.Phase)
		}
		return nil
	})
	n.consume("disk", "node-b")
	n.becomesReady("disk")
	n.beginsWith("disk", reference(t))
}

// A disk that is deleted while it is made leaves nothing, also where the image is.
func TestDiskOfAnImageDeletedAtHalf(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	g := n.newGolden(blockNow)
	g.leftAlone(g.claim)
	n.faults(csi.Fault{Method: "CreateVolume", Source: g.volumeSource(), DelayMillis: filled.Milliseconds(), Background: true})
	disk := ofImage(g, n.cloningClass(blockNow, "csi-clone"))
	n.create(disk)
	n.eventually(soon, "the driver clones", func() error {
		if phase := get(n, "disk", &v1alpha1.VMDisk{}).Status.Phase; phase != string(cdiv1.CSICloneInProgress) {
			return fmt.Errorf("its phase is %s", phase)
		}
		return nil
	})
	if err := n.Delete(t.Context(), disk); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	n.faults()
	n.leavesOnly(g.objects()...)
}
