//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
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
	n.reportsQuotas(diskSize)
	usage := n.measure()
	workers := n.watchWorkers()
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(slowly + qcow2File)}))
	n.isAtHalf("disk")
	var controllers corev1.PodList
	if err := n.List(t.Context(), &controllers, client.InNamespace(vmdiskNamespace)); err != nil || len(controllers.Items) == 0 {
		t.Fatalf("look for the controller: %v", err)
	}
	for i := range controllers.Items {
		if err := n.Delete(t.Context(), &controllers.Items[i]); err != nil {
			t.Fatalf("delete the controller: %v", err)
		}
	}
	n.becomesReady("disk")
	n.holds("disk", diskBytes, reference(t), dataBytes(n))
	n.leftAlone("disk")
	usage.wasExactly(n, diskBytes)
	if seen := workers.seen(); len(seen) != 1 {
		t.Errorf("the import took the workers %v, want one", seen)
	}
	n.scaleController(1) // the new one is ready before any other test begins
}

// What happens while there is no controller is seen by the next one: here the worker's end. This test, too, runs alone.
func TestControllerAwayAtTheEnd(t *testing.T) {
	n := newTenant(t)
	n.reportsQuotas(diskSize)
	usage := n.measure()
	workers := n.watchWorkers()
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(slowly + qcow2File)}))
	worker := n.isAtHalf("disk")
	n.scaleController(0)
	t.Cleanup(func() { n.scaleController(1) })
	n.eventually(filled, "the worker ends by itself", func() error {
		pod := get(n, worker.Name, &corev1.Pod{})
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	n.scaleController(1)
	n.becomesReady("disk")
	n.holds("disk", diskBytes, reference(t), dataBytes(n))
	n.leftAlone("disk")
	usage.wasExactly(n, diskBytes)
	if seen := workers.seen(); len(seen) != 1 {
		t.Errorf("the import took the workers %v, want one", seen)
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
			n.reportsQuotas(quantity(claimBytes(class)))
			usage := n.measure()
			workers := n.watchWorkers()
			n.create(newDisk(class, &v1alpha1.HTTPSource{URL: plainURL(slowly + qcow2File)}))
			worker := n.isAtHalf("disk")
			if err := n.Delete(t.Context(), &worker); err != nil {
				t.Fatalf("delete the worker: %v", err)
			}
			n.becomesReady("disk")
			n.holds("disk", diskBytes, reference(t), dataBytes(n))
			n.leftAlone("disk") // an interruption is no fault, so restartCount stays 0
			usage.wasExactly(n, claimBytes(class))
			if seen := workers.seen(); len(seen) != 2 {
				t.Errorf("the import took the workers %v, want two", seen)
			}
			if workers.overlapped() {
				t.Error("two workers existed at one time")
			}
		})
		t.Run("the disk, in "+class, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			disk := newDisk(class, &v1alpha1.HTTPSource{URL: plainURL(slowly + qcow2File)})
			n.create(disk)
			n.isAtHalf("disk")
			v := n.volume("disk")
			if err := n.Delete(t.Context(), disk); err != nil {
				t.Fatalf("delete the disk: %v", err)
			}
			n.eventually(soon, "no object is left", func() error {
				left := []string{}
				for _, objects := range []client.ObjectList{&v1alpha1.VMDiskList{}, &cdiv1.DataVolumeList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{}} {
					left = append(left, names(t, list(n, objects))...)
				}
				if len(left) > 0 {
					return errors.New(strings.Join(left, ", "))
				}
				return nil
			})
			n.leavesNothing(v)
		})
	}
	t.Run("the claim", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.reportsQuotas(diskSize)
		usage := n.measure()
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(slowly + qcow2File)}))
		n.isAtHalf("disk")
		v := n.volume("disk")
		if err := n.Delete(t.Context(), v.claim); err != nil {
			t.Fatalf("delete the claim: %v", err)
		}
		n.leavesNothing(v)
		n.becomesReady("disk")
		n.holds("disk", diskBytes, reference(t), dataBytes(n))
		usage.wasExactly(n, diskBytes)
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
	ctx, cancel := context.WithCancel(n.t.Context())
	var watcher sync.WaitGroup
	n.t.Cleanup(watcher.Wait)
	n.t.Cleanup(cancel)
	started := make(chan struct{}, 1)
	watcher.Go(func() { n.follow(ctx, n.name, &corev1.PodList{}, started, w.see) })
	<-started
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
