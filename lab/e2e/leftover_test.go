//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/csi"
)

// leavesOnly waits until nothing of this scenario is left, in any namespace and on the storage, but these objects and their volumes.
func (n *tenant) leavesOnly(keep ...client.Object) {
	n.t.Helper()
	n.eventually(filled, "nothing is left over", func() error {
		if left := n.leftovers(keep...); len(left) > 0 {
			return fmt.Errorf("there is still %s", strings.Join(left, ", "))
		}
		return nil
	})
}

// leftovers names what there is, in any namespace, that mentions this scenario's namespace or one of the objects to be kept, and isn't one
// of them; and what the storage holds for the scenario that no object knows.
func (n *tenant) leftovers(keep ...client.Object) []string {
	n.t.Helper()
	mentions, kept := []string{n.name}, map[types.UID]bool{}
	for _, object := range keep {
		kept[object.GetUID()] = true
		mentions = append(mentions, string(object.GetUID()))
		if object.GetNamespace() != n.name {
			mentions = append(mentions, object.GetName())
		}
	}
	handles := map[string]bool{}
	var left []string
	for _, kind := range []string{
		"v1 Pod", "v1 PersistentVolumeClaim", "v1 PersistentVolume", "v1 Secret", "v1 Service",
		"vmdisk.io/v1alpha1 VMDisk", "cdi.kubevirt.io/v1beta1 DataVolume", "networking.k8s.io/v1 NetworkPolicy",
		"snapshot.storage.k8s.io/v1 VolumeSnapshot", "snapshot.storage.k8s.io/v1 VolumeSnapshotContent",
	} {
		version, name, _ := strings.Cut(kind, " ")
		all := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": version, "kind": name + "List"}}
		if err := n.List(n.t.Context(), all); err != nil {
			n.t.Fatalf("list every %s: %v", name, err)
		}
		for i := range all.Items {
			object := &all.Items[i]
			handles[handleOf(object)] = true
			if kept[object.GetUID()] || name == "PersistentVolume" && kept[claimOf(object)] || !mentioned(n, object, mentions) {
				continue
			}
			left = append(left, strings.Trim(fmt.Sprintf("%s %s/%s", name, object.GetNamespace(), object.GetName()), "/"))
		}
	}
	holdings, err := csi.Holdings(cluster.CSIDir())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, h := range holdings {
		if !handles[h.Handle] && strings.HasPrefix(h.PVC, n.name+"/") {
			left = append(left, "on the storage "+h.Handle)
		}
	}
	return slices.Sorted(slices.Values(left))
}

// mentioned says whether an object's text has one of the words.
func mentioned(n *tenant, object *unstructured.Unstructured, words []string) bool {
	n.t.Helper()
	text, err := json.Marshal(object.Object)
	if err != nil {
		n.t.Fatal(err)
	}
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(string(text), word) })
}

// handleOf is the storage's name of a PersistentVolume or a VolumeSnapshotContent.
func handleOf(object *unstructured.Unstructured) string {
	for _, path := range [][]string{{"spec", "csi", "volumeHandle"}, {"status", "snapshotHandle"}, {"spec", "source", "snapshotHandle"}} {
		if handle, ok, _ := unstructured.NestedString(object.Object, path...); ok {
			return handle
		}
	}
	return ""
}

// claimOf is the claim that a PersistentVolume is bound to.
func claimOf(object *unstructured.Unstructured) types.UID {
	uid, _, _ := unstructured.NestedString(object.Object, "spec", "claimRef", "uid")
	return types.UID(uid)
}

// work counts what workers do: those in the scenario's namespace, and those elsewhere that mention it.
type work struct {
	mu      sync.Mutex
	workers map[types.UID]job.Result
}

// countWork watches from now on until the test ends.
func (n *tenant) countWork() *work {
	n.t.Helper()
	w := &work{workers: map[types.UID]job.Result{}}
	n.watch("", &corev1.PodList{}, func(_ watch.EventType, object client.Object) {
		pod := object.(*corev1.Pod)
		text, err := json.Marshal(pod)
		if _, worker := pod.Labels[cdi.WorkerLabel]; err != nil || !worker || !strings.Contains(string(text), n.name) {
			return
		}
		w.see(pod)
	})
	return w
}

func (w *work) see(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	result := w.workers[pod.UID]
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			_ = json.Unmarshal([]byte(s.State.Terminated.Message), &result) // another container's words are none
		}
	}
	w.workers[pod.UID] = result
}

// amount is how many workers there were, and how many bytes those that have ended read and wrote.
type amount struct {
	Workers       int
	Read, Written int64
}

func (w *work) amount() amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := amount{Workers: len(w.workers)}
	for _, r := range w.workers {
		a.Read += r.ReadBytes
		a.Written += r.WrittenBytes
	}
	return a
}
