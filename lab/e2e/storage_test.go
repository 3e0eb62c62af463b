//go:build e2e

package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/lab/csi"
)

// What the lab's storage does with clones and snapshots, without vmdisk: the ground that vmdisk's clones stand on.

const (
	genericNow   = "generic-immediate"
	genericLater = "generic"

	// smallBytes is the size of the claims here.
	smallBytes = int64(64) << 20
)

// snapshotClass is the VolumeSnapshotClass of a class's driver; empty if it makes no snapshots.
func snapshotClass(class string) string {
	switch class {
	case blockNow, blockLater, blockLocal:
		return "linstor-snapshots"
	case genericNow, genericLater:
		return "generic-snapshots"
	}
	return ""
}

// In each class of a driver that can, a claim is made from another and from a snapshot, with its bytes and larger than the source.
func TestStorageClonesAndRestores(t *testing.T) {
	t.Parallel()
	for _, class := range []string{blockNow, blockLater, blockLocal, genericNow, genericLater} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			work := n.countWork()
			sum := n.fillsByHand("golden", class)
			n.create(newSnapshot("snapshot", snapshotClass(class), "golden"))
			n.create(smallClaim("clone", class, 2*smallBytes, fromClaim("golden")))
			if n.reads("clone", homeOf(class)) != sum {
				t.Error("the clone holds other bytes than its source")
			}
			size := n.snapshotReady("snapshot")
			if size != fmt.Sprint(smallBytes>>20)+"Mi" {
				t.Errorf("the snapshot's restoreSize is %q", size)
			}
			// The snapshot counts, not what becomes of its claim.
			if err := n.Delete(t.Context(), get(n, "golden", &corev1.PersistentVolumeClaim{})); err != nil {
				t.Fatal(err)
			}
			n.create(smallClaim("restored", class, smallBytes, fromSnapshot("snapshot")))
			if n.reads("restored", homeOf(class)) != sum {
				t.Error("the restored claim holds other bytes than the snapshot's source")
			}
			if got := work.amount(); got != (amount{}) {
				t.Errorf("vmdisk has worked: %+v", got)
			}
		})
	}
}

// A driver without clones is told so by its sidecar; one with LINSTOR's ways hangs if the clone's consumer is where the source is not.
func TestStorageThatDoesNotClone(t *testing.T) {
	t.Parallel()
	t.Run("a driver without clones", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.fillsByHand("golden", filesNow)
		n.create(smallClaim("clone", filesNow, smallBytes, fromClaim("golden")))
		n.failsToProvision("clone", told, "CLONE_VOLUME capability is not reported")
	})
	t.Run("local, for another node", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.fillsByHand("golden", blockLocal)
		n.create(smallClaim("clone", blockLocal, smallBytes, fromClaim("golden")))
		pod := n.consume("clone", "node-a")
		n.failsToProvision("clone", 2*time.Minute, "DeadlineExceeded")
		if claim := get(n, "clone", &corev1.PersistentVolumeClaim{}); claim.Status.Phase != corev1.ClaimPending {
			t.Errorf("the clone is %s", claim.Status.Phase)
		}
		// The sidecar tries on for the claim that is gone. That is no matter to one of the same name, nor to the source's end.
		clone := get(n, "clone", &corev1.PersistentVolumeClaim{})
		if err := n.Delete(t.Context(), clone); err != nil {
			t.Fatal(err)
		}
		n.eventually(soon, "the clone's claim is gone", func() error {
			if err := n.Get(t.Context(), n.key("clone"), clone); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there, with finalizers %q (%v)", clone.Finalizers, err)
			}
			return nil
		})
		n.create(smallClaim("clone", blockLocal, smallBytes, nil))
		n.eventually(soon, "the pod has a fresh volume", func() error {
			if get(n, pod.Name, pod).Status.Phase != corev1.PodSucceeded {
				return fmt.Errorf("the pod is %s", pod.Status.Phase)
			}
			return nil
		})
		n.isOn("clone", "node-a")
		source := get(n, "golden", &corev1.PersistentVolumeClaim{})
		if err := n.Delete(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		n.eventually(soon, "the source is gone", func() error {
			if err := n.Get(t.Context(), n.key("golden"), source); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there, with finalizers %q (%v)", source.Finalizers, err)
			}
			return nil
		})
	})
	t.Run("a restore in local follows the snapshot", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		sum := n.fillsByHand("golden", blockLocal)
		n.create(newSnapshot("snapshot", snapshotClass(blockLocal), "golden"))
		n.snapshotReady("snapshot")
		n.create(smallClaim("restored", blockLocal, smallBytes, fromSnapshot("snapshot")))
		if n.reads("restored", "") != sum {
			t.Error("the restored claim holds other bytes than the snapshot's source")
		}
		n.isOn("restored", "node-b")
	})
}

// The reports' zero quota keeps a tenant from making snapshots.
func TestStorageQuotaForSnapshots(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	n.fillsByHand("golden", genericNow)
	const none = "count/volumesnapshots.snapshot.storage.k8s.io"
	n.quota("default-zero-quota", map[corev1.ResourceName]string{none: "0"})
	snapshot := newSnapshot("snapshot", snapshotClass(genericNow), "golden")
	snapshot.SetNamespace(n.name)
	if err := n.Create(t.Context(), snapshot); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: default-zero-quota") {
		t.Errorf("the snapshot was refused with: %v", err)
	}
}

// Each fault shows in the cluster as the storage's own would.
func TestStorageFaults(t *testing.T) {
	t.Parallel()
	refused := func(n *tenant) {
		n.create(smallClaim("clone", genericNow, smallBytes, fromClaim("golden")))
	}
	for name, test := range map[string]struct {
		fault func(claim string) csi.Fault
		do    func(n *tenant)
		shows func(n *tenant)
	}{
		"refuses clones": {
			fault: func(claim string) csi.Fault { return clonesAnswer(claim, codes.InvalidArgument, "no clones today") },
			do:    refused,
			shows: func(n *tenant) {
				n.failsToProvision("clone", told, "InvalidArgument", "no clones today")
				n.create(smallClaim("fresh", genericNow, smallBytes, nil))
				n.isBound("fresh")
			},
		},
		"reaches a limit at the second clone": {
			fault: func(claim string) csi.Fault { return clonesReachALimit(claim, 1) },
			do:    refused,
			shows: func(n *tenant) {
				n.isBound("clone")
				n.create(smallClaim("second", genericNow, smallBytes, fromClaim("golden")))
				n.failsToProvision("second", told, "ResourceExhausted", "limit reached")
			},
		},
		"takes its time": {
			fault: func(claim string) csi.Fault { return clonesTake(claim, 5*time.Second) },
			do:    refused,
			shows: func(n *tenant) { n.isBound("clone") },
		},
		"hangs with clones": {
			fault: clonesHang,
			do:    refused,
			shows: func(n *tenant) {
				n.failsToProvision("clone", 2*time.Minute, "DeadlineExceeded")
				n.faults()
				n.isBound("clone")
			},
		},
		"makes no snapshots": {
			fault: func(claim string) csi.Fault { return snapshotsFail(claim, "the pool makes no snapshots") },
			do:    func(n *tenant) { n.create(newSnapshot("snapshot", snapshotClass(genericNow), "golden")) },
			shows: func(n *tenant) {
				n.eventually(told, "the snapshot says why", func() error {
					message, _, _ := unstructured.NestedString(n.getSnapshot("snapshot").Object, "status", "error", "message")
					if !strings.Contains(message, "the pool makes no snapshots") {
						return errors.New(message)
					}
					return nil
				})
			},
		},
		"makes snapshots without a size": {
			fault: snapshotsHaveNoSize,
			do:    func(n *tenant) { n.create(newSnapshot("snapshot", snapshotClass(genericNow), "golden")) },
			shows: func(n *tenant) {
				if size := n.snapshotReady("snapshot"); size != "" && size != "0" { // the snapshotter has both ways
					n.t.Errorf("the snapshot's restoreSize is %q", size)
				}
			},
		},
		"can't grow": {
			fault: growingIsInfeasible,
			do: func(n *tenant) {
				claim := get(n, "golden", &corev1.PersistentVolumeClaim{})
				before := client.MergeFrom(claim.DeepCopy())
				claim.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(2*smallBytes, resource.BinarySI)
				if err := n.Patch(n.t.Context(), claim, before); err != nil {
					n.t.Fatal(err)
				}
			},
			shows: func(n *tenant) {
				n.eventually(told, "the claim says that it can't", func() error {
					status := get(n, "golden", &corev1.PersistentVolumeClaim{}).Status
					if got := status.AllocatedResourceStatuses[corev1.ResourceStorage]; got != corev1.PersistentVolumeClaimControllerResizeInfeasible {
						return fmt.Errorf("it says %q: %+v", got, status)
					}
					return nil
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.fillsByHand("golden", genericNow)
			n.faults(test.fault(n.name + "/*"))
			test.do(n)
			test.shows(n)
		})
	}
}

// A driver that dies comes back with what it has, and what was asked of it meanwhile is done. The test runs alone: the driver dies for all.
func TestStorageDies(t *testing.T) {
	n := newTenant(t)
	sum := n.fillsByHand("golden", genericNow)
	n.create(newSnapshot("snapshot", snapshotClass(genericNow), "golden"))
	n.snapshotReady("snapshot")
	n.faults(cloneKillsTheDriver(n.name+"/clone", 5*time.Second))
	for name, source := range map[string]*corev1.TypedObjectReference{"clone": fromClaim("golden"), "restored": fromSnapshot("snapshot")} {
		n.create(smallClaim(name, genericNow, smallBytes, source))
	}
	for _, name := range []string{"clone", "restored"} {
		if n.reads(name, "") != sum {
			t.Errorf("%s holds other bytes than its source", name)
		}
	}
}

// homeOf is where the pods of a class's claims run: on node-b, unless its volumes are on a node that nobody has chosen.
func homeOf(class string) string {
	if class == genericNow || class == filesNow {
		return ""
	}
	return "node-b"
}

// fillsByHand makes a claim, writes some bytes into its volume, and returns the SHA-256 of all of it.
func (n *tenant) fillsByHand(name, class string) (sum string) {
	n.t.Helper()
	n.create(smallClaim(name, class, smallBytes, nil))
	n.reads(name, homeOf(class))
	file := n.volume(name).file
	bytes := make([]byte, 1<<20)
	_, _ = rand.Read(bytes)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(bytes, smallBytes/2)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		sum, err = hashFile(file, smallBytes)
	}
	if err != nil {
		n.t.Fatalf("write by hand: %v", err)
	}
	return sum
}

// smallClaim is a raw claim, from a source or without.
func smallClaim(name, class string, bytes int64, source *corev1.TypedObjectReference) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, VolumeMode: new(corev1.PersistentVolumeBlock), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:     corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(bytes, resource.BinarySI)}},
		DataSourceRef: source,
	}}
}

func fromClaim(name string) *corev1.TypedObjectReference {
	return &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: name}
}

func fromSnapshot(name string) *corev1.TypedObjectReference {
	return &corev1.TypedObjectReference{APIGroup: new(snapshotGroup), Kind: "VolumeSnapshot", Name: name}
}

const snapshotGroup = "snapshot.storage.k8s.io"

// newSnapshot is a snapshot of a claim.
func newSnapshot(name, class, claim string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": snapshotGroup + "/v1", "kind": "VolumeSnapshot", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"volumeSnapshotClassName": class, "source": map[string]any{"persistentVolumeClaimName": claim}},
	}}
}

func (n *tenant) getSnapshot(name string) *unstructured.Unstructured {
	n.t.Helper()
	return get(n, name, newSnapshot(name, "", ""))
}

// snapshotReady waits for a snapshot and returns its restoreSize.
func (n *tenant) snapshotReady(name string) (restoreSize string) {
	n.t.Helper()
	n.eventually(soon, "the snapshot is ready", func() error {
		status, _, _ := unstructured.NestedMap(n.getSnapshot(name).Object, "status")
		if status["readyToUse"] != true {
			return fmt.Errorf("its status is %v", status)
		}
		restoreSize, _ = status["restoreSize"].(string)
		return nil
	})
	return restoreSize
}

// consume starts a pod that reads a small claim, on a node or anywhere.
func (n *tenant) consume(claim, node string) *corev1.Pod {
	n.t.Helper()
	pod := restrictedPod("reads-"+claim, n.server().tools, "hash", "--bytes", fmt.Sprint(smallBytes), "/dev/disk")
	pod.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/disk"}}
	if node != "" {
		pod.Spec.Affinity = onNode(node)
	}
	n.create(pod)
	return pod
}

// reads is the SHA-256 that a pod reads from a small claim. The volume is in nobody's hands afterwards.
func (n *tenant) reads(claim, node string) string {
	n.t.Helper()
	pod := n.consume(claim, node)
	n.eventually(filled, "the pod has read "+claim, func() error {
		if get(n, pod.Name, pod).Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	sum, _, _ := strings.Cut(kubectl("-n", n.name, "logs", pod.Name), " ")
	if err := n.Delete(n.t.Context(), pod); err != nil {
		n.t.Fatal(err)
	}
	v := n.volume(claim)
	n.eventually(soon, "the node lets go of the volume", func() error {
		if left := loops(n, v.file); left != "" {
			return errors.New(left)
		}
		return nil
	})
	return sum
}

// isBound waits for a claim.
func (n *tenant) isBound(claim string) {
	n.t.Helper()
	n.eventually(soon, claim+" is bound", func() error {
		if phase := get(n, claim, &corev1.PersistentVolumeClaim{}).Status.Phase; phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
}

// failsToProvision waits until an event of the claim has the sidecar's words.
func (n *tenant) failsToProvision(claim string, within time.Duration, parts ...string) {
	n.t.Helper()
	about := client.MatchingFields{"involvedObject.uid": string(get(n, claim, &corev1.PersistentVolumeClaim{}).UID)}
	n.eventually(within, fmt.Sprintf("an event of %s says %q", claim, parts), func() error {
		var said []string
		for _, e := range list(n, &corev1.EventList{}, about).Items {
			if e.Reason == "ProvisioningFailed" && containsAll(e.Message, parts) {
				return nil
			}
			said = append(said, e.Reason+": "+e.Message)
		}
		return errors.New(strings.Join(said, "; "))
	})
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
