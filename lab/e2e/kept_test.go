//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
)

// Everything of a disk is exported and deleted, and its volume is kept. Applied again, the disk has its volume and its bytes, and nobody
// has written to it.
func TestRestoredWithItsVolume(t *testing.T) {
	t.Parallel()
	for _, class := range []string{blockNow, filesLater} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.create(newDisk(class, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
			n.becomesReady("disk")
			kept, exported := n.volume("disk"), get(n, "disk", &v1alpha1.VMDisk{})
			n.deleteAllBut(kept)
			workers := n.watchWorkers()
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "disk", Labels: kept.claim.Labels, Annotations: exportable(kept.claim)}, Spec: kept.claim.Spec}
			n.create(claim, &v1alpha1.VMDisk{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: exported.Spec})
			n.becomesReady("disk")
			n.eventually(soon, "the claim is bound to its old volume", func() error {
				if c := get(n, "disk", &corev1.PersistentVolumeClaim{}); c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName != kept.pv.Name {
					return fmt.Errorf("it is %s, to volume %q", c.Status.Phase, c.Spec.VolumeName)
				}
				return nil
			})
			n.holds("disk", diskBytes, reference(t), dataBytes(n))
			if seen := workers.seen(); len(seen) > 0 {
				t.Errorf("the disk had the workers %v, and its bytes", seen)
			}
		})
	}
	t.Run("by its volume alone", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
		n.becomesReady("disk")
		kept, exported := n.volume("disk"), get(n, "disk", &cdiv1.DataVolume{})
		n.deleteAllBut(kept)
		workers := n.watchWorkers()
		n.create(&cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk", Annotations: map[string]string{cdi.CheckStaticVolume: ""}}, Spec: exported.Spec})
		n.succeeds("disk")
		if got := n.volume("disk").pv.Name; got != kept.pv.Name {
			t.Errorf("it is on volume %s, want %s", got, kept.pv.Name)
		}
		n.holds("disk", diskBytes, reference(t), dataBytes(n))
		if seen := workers.seen(); len(seen) > 0 {
			t.Errorf("the disk had the workers %v, and its bytes", seen)
		}
	})
}

// deleteAllBut deletes the disk and all that belongs to it, but its volume, which is then reserved for the next claim of the name.
func (n *tenant) deleteAllBut(kept volume) {
	n.t.Helper()
	n.changeVolume(kept.pv, func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	if err := n.Delete(n.t.Context(), get(n, "disk", &v1alpha1.VMDisk{})); err != nil {
		n.t.Fatalf("delete the disk: %v", err)
	}
	n.becomesEmpty()
	n.changeVolume(kept.pv, func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.ResourceVersion = "", ""
	})
	n.t.Cleanup(func() { // not before: the driver deletes a volume that looks released
		n.changeVolume(kept.pv, func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		})
	})
}

// exportable are the annotations of a claim that backup tools keep: all but those that say to which volume this very claim is bound.
func exportable(claim *corev1.PersistentVolumeClaim) map[string]string {
	kept := maps.Clone(claim.Annotations)
	maps.DeleteFunc(kept, func(key, _ string) bool { return strings.HasPrefix(key, "pv.kubernetes.io/") })
	return kept
}

// changeVolume changes a PersistentVolume, as an administrator does.
func (n *tenant) changeVolume(pv *corev1.PersistentVolume, change func(*corev1.PersistentVolume)) {
	n.t.Helper()
	ctx := context.WithoutCancel(n.t.Context()) // also at the test's end
	if err := n.Get(ctx, client.ObjectKeyFromObject(pv), pv); err != nil {
		n.t.Fatalf("read volume %s: %v", pv.Name, err)
	}
	before := client.MergeFrom(pv.DeepCopy())
	change(pv)
	if err := n.Patch(ctx, pv, before); err != nil {
		n.t.Fatalf("change volume %s: %v", pv.Name, err)
	}
}

// becomesEmpty waits until nothing is left of the tenant's disks.
func (n *tenant) becomesEmpty() {
	n.t.Helper()
	n.eventually(soon, "no object is left", func() error {
		left := []string{}
		for _, objects := range []client.ObjectList{&v1alpha1.VMDiskList{}, &cdiv1.DataVolumeList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}} {
			left = append(left, names(n.t, list(n, objects))...)
		}
		if len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
}

// A disk that is deleted leaves nothing behind, whatever it was doing.
func TestDeletedAtAnyMoment(t *testing.T) {
	t.Parallel()
	missing := &v1alpha1.HTTPSource{URL: plainURL("no-such-image")}
	for name, test := range map[string]struct {
		class  string
		source *v1alpha1.HTTPSource
		change func(*v1alpha1.VMDisk)
		reach  func(*tenant)
	}{
		"at once": {class: blockNow, source: missing, reach: func(*tenant) {}},
		"while it waits for its machine": {class: blockLater, change: func(d *v1alpha1.VMDisk) { d.Spec.BindImmediately = new(false) },
			reach: func(n *tenant) { n.rests("disk") }},
		"while no node takes its worker": {class: filesLater, change: func(d *v1alpha1.VMDisk) {
			d.Spec.Placement = &v1alpha1.Placement{NodeSelector: map[string]string{corev1.LabelHostname: "node-z"}}
		}, reach: func(n *tenant) { n.says("disk", told, "no node takes the worker") }},
		"between two attempts":   {class: filesNow, source: missing, reach: func(n *tenant) { n.says("disk", told, "404 Not Found") }},
		"while it can't be made": {class: "no-such-class", reach: func(n *tenant) { n.says("disk", told, "no-such-class") }},
		"once it is filled":      {class: filesLater, reach: func(n *tenant) { n.becomesReady("disk") }},
		"while it grows": {class: filesLater, reach: func(n *tenant) {
			n.becomesReady("disk")
			n.grow("disk", grownSize)
			n.eventually(soon, "it grows", func() error {
				return n.resizing("disk", metav1.ConditionTrue, "VolumeResizing", "FileSystemResizePending", "FileResizing")
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			disk := newDisk(test.class, test.source)
			if test.change != nil {
				test.change(disk)
			}
			n.create(disk)
			test.reach(n)
			if err := n.Delete(t.Context(), get(n, "disk", &v1alpha1.VMDisk{})); err != nil {
				t.Fatal(err)
			}
			n.becomesEmpty()
			n.eventually(soon, "its volume is gone", n.hasNothing)
		})
	}
	t.Run("with its namespace, at half", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.importsHalf(blockNow)
		v := n.volume("disk")
		namespace := &corev1.Namespace{}
		if err := n.Get(t.Context(), client.ObjectKey{Name: n.name}, namespace); err != nil {
			t.Fatal(err)
		}
		if err := n.Delete(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		n.eventually(filled, "the namespace is gone", func() error {
			err := n.Get(t.Context(), client.ObjectKey{Name: n.name}, namespace)
			if err == nil {
				return fmt.Errorf("it is %s: %+v", namespace.Status.Phase, namespace.Status.Conditions)
			}
			return client.IgnoreNotFound(err)
		})
		n.leavesNothing(v)
	})
	t.Run("its DataVolume, once it is filled", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.create(newDisk(blockNow, nil))
		n.becomesReady("disk")
		v, dv := n.volume("disk"), get(n, "disk", &cdiv1.DataVolume{})
		if err := n.Delete(t.Context(), dv); err != nil {
			t.Fatal(err)
		}
		n.leavesNothing(v)
		n.eventually(filled, "the disk is made anew", func() error {
			again := &cdiv1.DataVolume{}
			if err := n.Get(t.Context(), n.key("disk"), again); err != nil {
				return err
			}
			if again.UID == dv.UID || again.Status.Phase != cdiv1.Succeeded {
				return fmt.Errorf("its DataVolume is %s", again.Status.Phase)
			}
			return nil
		})
	})
}
