//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
)

// slowly serves the compressed image in about twelve seconds.
const slowly = "slow/3000000/"

// The controller's end does not disturb an import: the same worker finishes it, and the next controller sees that. This test runs
// alone, because all the others need the controller.
func TestControllerRestartedAtHalf(t *testing.T) {
	n := newTenant(t)
	half := n.importsHalf(blockNow)
	var controllers corev1.PodList
	if err := n.List(t.Context(), &controllers, client.InNamespace(vmdiskNamespace)); err != nil || len(controllers.Items) == 0 {
		t.Fatalf("look for the controller: %v", err)
	}
	for i := range controllers.Items {
		if err := n.Delete(t.Context(), &controllers.Items[i]); err != nil {
			t.Fatalf("delete the controller: %v", err)
		}
	}
	half.endsWell(n, 1)
	n.scaleController(1) // the new one is ready before any other test begins
}

// What happens while there is no controller is seen by the next one: here the worker's end. This test, too, runs alone.
func TestControllerAwayAtTheEnd(t *testing.T) {
	n := newTenant(t)
	half := n.importsHalf(blockNow)
	n.scaleController(0)
	t.Cleanup(func() { n.scaleController(1) })
	n.eventually(filled, "the worker ends by itself", func() error {
		pod := get(n, half.worker.Name, &corev1.Pod{})
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	n.scaleController(1)
	half.endsWell(n, 1)
}

// halfImported is an import that has come half of its way, in a quota of exactly its size.
type halfImported struct {
	class   string
	usage   *usage
	workers *workers
	worker  corev1.Pod
}

// importsHalf begins a slow import, and returns once some of the image is through.
func (n *tenant) importsHalf(class string) halfImported {
	n.t.Helper()
	n.reportsQuotas(quantity(claimBytes(class)))
	half := halfImported{class: class, usage: n.measure(), workers: n.watchWorkers()}
	n.create(newDisk(class, &v1alpha1.HTTPSource{URL: plainURL(slowly + qcow2File)}))
	half.worker = n.isAtHalf("disk")
	return half
}

// endsWell checks that the import ends as if nothing had happened, and that it took so many workers, one after another.
func (half halfImported) endsWell(n *tenant, workers int) {
	n.t.Helper()
	n.becomesReady("disk")
	n.holds("disk", diskBytes, reference(n.t), dataBytes(n))
	n.leftAlone("disk") // an interruption is no fault, so restartCount stays 0
	half.usage.wasExactly(n, claimBytes(half.class))
	if seen := half.workers.seen(); len(seen) != workers {
		n.t.Errorf("the import took the workers %v, want %d", seen, workers)
	}
	if half.workers.overlapped() {
		n.t.Error("two workers existed at one time")
	}
}

// scaleController makes the controller's Deployment so many pods large, and waits until it is.
func (n *tenant) scaleController(replicas int32) {
	n.t.Helper()
	ctx := context.WithoutCancel(n.t.Context()) // also to repair what a failed test has left
	d := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: vmdiskNamespace, Name: "vmdisk-controller"}
	if err := n.Get(ctx, key, d); err != nil {
		n.t.Fatalf("read the controller's Deployment: %v", err)
	}
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = &replicas
	if err := n.Patch(ctx, d, before); err != nil {
		n.t.Fatalf("scale the controller: %v", err)
	}
	n.eventually(soon, fmt.Sprintf("the controller has %d pods", replicas), func() error {
		var pods corev1.PodList
		if err := n.List(ctx, &pods, client.InNamespace(vmdiskNamespace)); err != nil {
			return err
		}
		ready := int32(0)
		for i := range pods.Items {
			if podReady(&pods.Items[i]) {
				ready++
			}
		}
		if int(replicas) != len(pods.Items) || ready != replicas {
			return fmt.Errorf("there are %d, and %d are ready", len(pods.Items), ready)
		}
		return nil
	})
}

// What is deleted in the middle of an import either comes again and ends well, or leaves nothing behind.
func TestDeletedAtHalf(t *testing.T) {
	t.Parallel()
	for _, class := range []string{blockNow, filesLater} {
		t.Run("the worker, in "+class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			half := n.importsHalf(class)
			if err := n.Delete(t.Context(), &half.worker); err != nil {
				t.Fatalf("delete the worker: %v", err)
			}
			half.endsWell(n, 2)
		})
		t.Run("the disk, in "+class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.importsHalf(class)
			v := n.volume("disk")
			if err := n.Delete(t.Context(), get(n, "disk", &v1alpha1.VMDisk{})); err != nil {
				t.Fatalf("delete the disk: %v", err)
			}
			n.becomesEmpty()
			n.leavesNothing(v)
		})
	}
	t.Run("the claim", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		half := n.importsHalf(blockNow)
		v := n.volume("disk")
		if err := n.Delete(t.Context(), v.claim); err != nil {
			t.Fatalf("delete the claim: %v", err)
		}
		n.leavesNothing(v)
		half.endsWell(n, 2)
	})
}

// names are the names of a list's objects, with their type.
func names(t *testing.T, objects client.ObjectList) []string {
	t.Helper()
	var all []string
	err := meta.EachListItem(objects, func(o runtime.Object) error {
		all = append(all, fmt.Sprintf("%T %s", o, o.(client.Object).GetName()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isAtHalf waits until the disk's progress shows that some of the image is through, and not all, and returns the worker.
func (n *tenant) isAtHalf(name string) corev1.Pod {
	n.t.Helper()
	n.eventually(soon, "the import is at half", func() error {
		progress := get(n, name, &v1alpha1.VMDisk{}).Status.Progress
		percent, err := strconv.ParseFloat(strings.TrimSuffix(progress, "%"), 64)
		if err != nil || percent < 25 {
			return fmt.Errorf("its progress is %q", progress)
		}
		if percent > 90 {
			n.t.Fatalf("the progress was not seen before it was %s", progress)
		}
		return nil
	})
	pods := list(n, &corev1.PodList{}, client.MatchingLabels{cdi.WorkerLabel: cdi.WorkerImporter})
	if len(pods.Items) != 1 {
		n.t.Fatalf("there are %d workers, want one", len(pods.Items))
	}
	return pods.Items[0]
}

// workers are the workers that a tenant ever had.
type workers struct {
	mu    sync.Mutex
	all   []types.UID
	live  map[types.UID]bool
	twice bool
}

// watchWorkers sees every worker from now on.
func (n *tenant) watchWorkers() *workers {
	n.t.Helper()
	w := &workers{live: map[types.UID]bool{}}
	n.watch(n.name, &corev1.PodList{}, w.see)
	return w
}

func (w *workers) see(event watch.EventType, object client.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid := object.GetUID()
	if event == watch.Deleted {
		delete(w.live, uid)
		return
	}
	if !w.live[uid] {
		w.all = append(w.all, uid)
	}
	w.live[uid] = true
	w.twice = w.twice || len(w.live) > 1
}

// watchEvictions sees from now on whether the kubelet evicts a worker.
func (n *tenant) watchEvictions() (evicted func() bool) {
	n.t.Helper()
	var seen atomic.Bool
	n.watch(n.name, &corev1.PodList{}, func(_ watch.EventType, object client.Object) {
		if pod, ok := object.(*corev1.Pod); ok && pod.Status.Reason == "Evicted" {
			seen.Store(true)
		}
	})
	return seen.Load
}

func (w *workers) seen() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

func (w *workers) overlapped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.twice
}
