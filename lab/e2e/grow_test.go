//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// grownSize is what disks grow to here, twice the usual size.
const grownSize = "1Gi"

// A disk grows when its storage is raised, keeps its bytes, and says on the way where it is.
func TestGrowing(t *testing.T) {
	t.Parallel()
	image := &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}
	for _, class := range []string{blockNow, blockLocal} {
		t.Run("a device in "+class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.create(newDisk(class, image))
			n.becomesReady("disk")
			n.grow("disk", grownSize)
			n.hasGrown("disk")
			n.holds("disk", diskBytes, reference(t), -1)
			if got := n.volume("disk").claim.Status.Capacity.Storage().String(); got != grownSize {
				t.Errorf("the claim's capacity is %s", got)
			}
		})
	}
	for _, class := range []string{filesNow, filesLater} {
		t.Run("a file in "+class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.create(newDisk(class, image))
			n.becomesReady("disk")
			n.grow("disk", grownSize)
			n.hasGrown("disk")
			n.fileHasGrown("disk")
		})
	}
	t.Run("a file under a machine, once that has stopped", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(newDisk(filesLater, image))
		n.becomesReady("disk")
		m := &machine{tenant: n, disk: "disk", tools: n.server().tools}
		if err := m.start("virt-launcher", "pause"); err != nil {
			t.Fatal(err)
		}
		n.eventually(soon, "the machine runs, and the worker that filled its disk is gone", func() error {
			if phase := get(n, "virt-launcher", &corev1.Pod{}).Status.Phase; phase != corev1.PodRunning {
				return fmt.Errorf("it is %s", phase)
			}
			if pods := list(n, &corev1.PodList{}); len(pods.Items) != 1 {
				return fmt.Errorf("there are %v", names(t, pods))
			}
			return nil
		})
		n.grow("disk", grownSize)
		n.eventually(soon, "the disk says that its volume is larger, and its file is in use", func() error {
			return n.resizing("disk", metav1.ConditionTrue, "FileSystemResizePending", "DiskInUse", "ResizeFailed")
		})
		n.stays(3*time.Second, "nobody touches the file", func() error {
			if pods := list(n, &corev1.PodList{}); len(pods.Items) != 1 {
				return fmt.Errorf("there are %v", names(t, pods))
			}
			if size := get(n, "disk", &v1alpha1.VMDisk{}).Status.Size; size != diskSize {
				return fmt.Errorf("the disk shows a size of %s", size)
			}
			return nil
		})
		if err := n.Delete(t.Context(), get(n, "virt-launcher", &corev1.Pod{})); err != nil {
			t.Fatal(err)
		}
		n.hasGrown("disk")
		n.fileHasGrown("disk")
	})
}

// What a disk can't grow for is named on it; the disk works on, and grows once that is mended.
func TestGrowingRefused(t *testing.T) {
	t.Parallel()
	t.Run("by a quota", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.reportsQuotas("768Mi")
		n.create(newDisk(blockNow, nil))
		n.becomesReady("disk")
		n.grow("disk", grownSize)
		n.cantGrow("disk", "GrowthRefused", `quota "quota"`, "it asks requests.storage=512Mi", "used are requests.storage=512Mi of requests.storage=768Mi")
		n.raise(quotaName, corev1.ResourceRequestsStorage, grownSize)
		n.hasGrown("disk")
	})
	t.Run("by its class", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		class := n.name + "-fixed"
		n.makeClass(class, nil) // it doesn't say that volumes may grow
		n.create(newDisk(class, nil))
		n.becomesReady("disk")
		n.grow("disk", grownSize)
		n.cantGrow("disk", "ClassCannotGrow", "StorageClass "+class, "allowVolumeExpansion", "stays at "+diskSize)
	})
}

// grow raises a disk's storage, as a person does.
func (n *tenant) grow(name, to string) {
	n.t.Helper()
	disk := get(n, name, &v1alpha1.VMDisk{})
	before := client.MergeFrom(disk.DeepCopy())
	disk.Spec.Storage = new(resource.MustParse(to))
	if err := n.Patch(n.t.Context(), disk, before); err != nil {
		n.t.Fatalf("raise the storage of disk %s: %v", name, err)
	}
}

// hasGrown waits until a disk has the larger size, and nothing is left of what made it so.
func (n *tenant) hasGrown(name string) {
	n.t.Helper()
	n.eventually(filled, "the disk has grown", func() error {
		if size := get(n, name, &v1alpha1.VMDisk{}).Status.Size; size != grownSize {
			return fmt.Errorf("its size is %s: %w", size, n.resizing(name, metav1.ConditionFalse, "Resized"))
		}
		if pods := list(n, &corev1.PodList{}); len(pods.Items) > 0 {
			return fmt.Errorf("there are %v", names(n.t, pods))
		}
		return n.resizing(name, metav1.ConditionFalse, "Resized")
	})
}

// fileHasGrown checks that a file is exactly as long as was asked, and that the guest's bytes are where they were.
func (n *tenant) fileHasGrown(claim string) {
	n.t.Helper()
	file := n.inspect(n.volume(claim))
	if want := resource.MustParse(grownSize); file.Bytes != want.Value() || file.Mode != "660" || file.User != "107" {
		n.t.Errorf("disk.img has %d bytes, mode %s and user %s", file.Bytes, file.Mode, file.User)
	}
	if file.first != reference(n.t) {
		n.t.Errorf("the first %d bytes of disk.img are not the image", diskBytes)
	}
}

// resizing says what is not as wanted in a disk's Resizing condition: the status, and one of the reasons.
func (n *tenant) resizing(name string, status metav1.ConditionStatus, reasons ...string) error {
	n.t.Helper()
	c := meta.FindStatusCondition(get(n, name, &v1alpha1.VMDisk{}).Status.Conditions, v1alpha1.ConditionResizing)
	if c == nil {
		return errors.New("it has no condition Resizing")
	}
	for _, reason := range reasons {
		if c.Status == status && c.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("its Resizing is %+v", *c)
}

// cantGrow waits until a disk says why it can't grow, and checks that it works on all the same.
func (n *tenant) cantGrow(name, reason string, parts ...string) {
	n.t.Helper()
	n.eventually(told, "the disk says why it can't grow", func() error {
		c := meta.FindStatusCondition(get(n, name, &v1alpha1.VMDisk{}).Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return fmt.Errorf("its Ready is %+v", c)
		}
		for _, part := range parts {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("%q doesn't say %q", c.Message, part)
			}
		}
		return nil
	})
	if c := n.workloads(name); c.Status != metav1.ConditionTrue {
		n.t.Errorf("WorkloadsReady is %+v", c)
	}
	n.keepStory(name)
}
