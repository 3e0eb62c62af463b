//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
)

// room is a claim for a disk of the usual size and its filesystem, as people write it.
const room = "600Mi"

// withFiles makes a bare claim one with a filesystem.
func withFiles(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(room)
	return claim
}

// blankSource is a VolumeImportSource of nothing.
func blankSource() *cdiv1.VolumeImportSource {
	s := source("")
	s.Spec.Source = &cdiv1.ImportSourceType{Blank: &cdiv1.DataVolumeBlankImage{}}
	return s
}

func populatesWhateverIsAskedFor(t *testing.T) {
	image := func() *cdiv1.VolumeImportSource { return source(plainURL(qcow2File)) }
	for name, c := range map[string]struct {
		source *cdiv1.VolumeImportSource
		claim  *corev1.PersistentVolumeClaim
		sum    string
	}{
		"an image on a filesystem":  {image(), withFiles(bareClaim(filesNow)), reference(t)},
		"a blank disk":              {blankSource(), bareClaim(blockNow), zeros},
		"a blank one as a file":     {blankSource(), withFiles(bareClaim(filesNow)), zeros},
		"a filesystem on any class": {image(), withFiles(bareClaim(blockNow)), reference(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			size := c.claim.Spec.Resources.Requests.Storage()
			n.reportsQuotas(size.String())
			usage := n.measure()
			n.create(c.source, c.claim)
			n.isHandedOver()
			if *c.claim.Spec.VolumeMode == corev1.PersistentVolumeBlock {
				n.holds("disk", diskBytes, c.sum, -1)
			} else {
				n.holdsAtLeast("disk", c.sum)
			}
			usage.wasExactly(n, size.Value())
		})
	}
	t.Run("an image that machines on two nodes share", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.reportsQuotas(diskSize)
		usage := n.measure()
		shared := bareClaim(blockNow)
		shared.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		n.create(image(), shared)
		n.isFilled()
		usage.wasExactly(n, diskBytes)
		for _, node := range []string{"node-a", "node-b"} {
			n.consumer(node).reads(node)
		}
	})
}

// consumer starts a pod on a node that reads the whole disk as soon as there is one. The pod has the node's name.
func (n *tenant) consumer(node string) *machine {
	n.t.Helper()
	m := &machine{tenant: n, disk: "disk", node: node, tools: n.server().tools}
	if err := m.start(node, m.reading(get(n, "disk", &corev1.PersistentVolumeClaim{}))...); err != nil {
		n.t.Fatal(err)
	}
	return m
}

// Where a class makes its volumes for their first consumer, nothing is made before that is there, and then where it runs.
func populatesForItsConsumer(t *testing.T) {
	for name, c := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		node  string
	}{
		"a block device, on one node":    {bareClaim(blockLocal), "node-b"},
		"a filesystem, on the other one": {withFiles(bareClaim(filesLater)), "node-a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			size := c.claim.Spec.Resources.Requests.Storage()
			n.reportsQuotas(size.String())
			usage := n.measure()
			n.create(source(plainURL(qcow2File)), c.claim)
			n.waitsForItsConsumer()
			m := n.consumer(c.node)
			n.isHandedOver()
			n.isOn("disk", c.node)
			m.reads(c.node)
			usage.wasExactly(n, size.Value())
		})
	}
	t.Run("unless it is to be bound immediately", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.reportsQuotas(diskSize)
		usage := n.measure()
		claim := bareClaim(blockLocal)
		claim.Annotations = map[string]string{cdi.BindImmediate: ""}
		n.create(source(plainURL(qcow2File)), claim)
		n.isFilled()
		usage.wasExactly(n, diskBytes)
	})
	t.Run("or somebody asks for that later", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(source(plainURL(qcow2File)), bareClaim(blockLater))
		n.waitsForItsConsumer()
		claim := get(n, "disk", &corev1.PersistentVolumeClaim{})
		before := client.MergeFrom(claim.DeepCopy())
		claim.Annotations[cdi.BindImmediate] = ""
		if err := n.Patch(t.Context(), claim, before); err != nil {
			t.Fatal(err)
		}
		n.isFilled()
	})
}

// waitsForItsConsumer checks that a claim which nobody uses stays as it is, says so, and takes no place from others.
func (n *tenant) waitsForItsConsumer() {
	n.t.Helper()
	waiting := func() error {
		c := get(n, "disk", &corev1.PersistentVolumeClaim{})
		if got := n.population(); c.Status.Phase != corev1.ClaimPending || !strings.HasPrefix(got, "WaitForFirstConsumer: ") {
			return fmt.Errorf("it is %s and says %q", c.Status.Phase, got)
		}
		if made := n.inPopulator(c.UID); len(made) > 0 {
			return errors.New("the populator has made " + strings.Join(made, ", "))
		}
		return nil
	}
	n.eventually(told, "the claim waits for its consumer", waiting)
	n.stays(3*time.Second, "the claim waits", waiting)
}

// What somebody deletes of a temporary disk is made again, and the claim gets a whole disk all the same.
func populatesWhateverIsLost(t *testing.T) {
	for name, lost := range map[string]client.Object{
		"the temporary claim, at half":      &corev1.PersistentVolumeClaim{},
		"the temporary DataVolume, at half": &cdiv1.DataVolume{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.reportsQuotas(diskSize)
			usage := n.measure()
			n.create(source(plainURL(slowly+qcow2File)), bareClaim(blockNow))
			n.isPopulatedHalf()
			n.temporary(lost)
			if err := n.Delete(t.Context(), lost); err != nil {
				t.Fatal(err)
			}
			n.isFilled()
			usage.wasExactly(n, diskBytes)
		})
	}
}

func tellsWhatCannotBePopulated(t *testing.T) {
	says := func(n *tenant, want ...string) {
		n.eventually(told, "the claim says why it isn't filled", func() error {
			got := n.population()
			for _, w := range want {
				if !strings.Contains(got, w) {
					return fmt.Errorf("it says %q, want %q", got, w)
				}
			}
			return nil
		})
	}
	t.Run("there is no source yet", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(bareClaim(blockNow))
		says(n, "SourceMissing: VolumeImportSource image doesn't exist in namespace "+n.name)
		n.create(source(plainURL(qcow2File)))
		n.isFilled()
	})
	t.Run("the class's secrets are named after the claim", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		class := n.name + "-secrets"
		n.makeClass(class, map[string]string{"csi.storage.k8s.io/node-stage-secret-name": "${pvc.name}-key", "csi.storage.k8s.io/node-stage-secret-namespace": "${pvc.namespace}"})
		n.create(source(plainURL(qcow2File)), bareClaim(class))
		says(n, "Impossible: StorageClass "+class+" takes its volumes' secrets by the claim's own name", "node-stage-secret-name")
		if made := n.inPopulator(get(n, "disk", &corev1.PersistentVolumeClaim{}).UID); len(made) > 0 {
			t.Errorf("the populator has made %v", made)
		}
	})
	t.Run("the image is a web page", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(source(plainURL("html/"+qcow2File)), bareClaim(blockNow))
		says(n, "ImportFailed: ", "this is a web page")
	})
}
