//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/cluster"
)

// An import whose worker is killed three times, once while there is no controller, ends with the right bytes, and hardly any of
// them was served twice. It runs alone, because all the others need the controller.
func TestLongKilledThreeTimes(t *testing.T) {
	n := newTenant(t)
	const path = "slow/6000000/" + longFile
	served := n.server().stat("/" + path).Bytes
	workers := n.watchWorkers()
	disk := newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(path), Checksum: "sha256:" + imageSum(t, longFile)})
	disk.Spec.Storage = resource.NewQuantity(longBytes, resource.BinarySI)
	n.create(disk)
	last := types.UID("")
	for kill, least := range []float64{15, 40, 65} {
		worker := n.passes(last, least)
		last = worker.UID
		away := kill == 1
		if away {
			n.scaleController(0)
			t.Cleanup(func() { n.scaleController(1) })
		}
		n.kill(worker)
		if away {
			n.eventually(soon, "the killed worker's end is seen", func() error {
				if p := get(n, worker.Name, &corev1.Pod{}); p.Status.Phase != corev1.PodFailed {
					return fmt.Errorf("it is %s", p.Status.Phase)
				}
				return nil
			})
			n.scaleController(1)
		}
	}
	n.becomesReady("disk")
	n.holds("disk", longBytes, imageSum(t, longFile), dataBytes(n))
	if seen := workers.seen(); len(seen) != 4 || workers.overlapped() {
		t.Errorf("the import took the workers %v, want four, one after another", seen)
	}
	n.tellsOf("ImportResumed", 3)
	served = n.server().stat("/"+path).Bytes - served
	t.Logf("%d bytes were served for an image of %d: %.1f %%", served, longBytes, 100*float64(served)/float64(longBytes))
	if served > longBytes*11/10 {
		t.Errorf("%d bytes were served for an image of %d", served, longBytes)
	}
}

// passes waits until a worker that isn't the last one has come so far, in percent, and returns it.
func (n *tenant) passes(last types.UID, least float64) corev1.Pod {
	n.t.Helper()
	var worker *corev1.Pod
	n.eventually(filled, fmt.Sprintf("a new worker has come to %.0f %%", least), func() error {
		worker = n.worker()
		progress := get(n, "disk", &v1alpha1.VMDisk{}).Status.Progress
		percent, err := strconv.ParseFloat(strings.TrimSuffix(progress, "%"), 64)
		if err != nil || percent < least || worker == nil || worker.UID == last {
			return fmt.Errorf("its progress is %q", progress)
		}
		return nil
	})
	return *worker
}

// kill ends a worker's process with SIGKILL.
func (n *tenant) kill(worker corev1.Pod) {
	n.t.Helper()
	if err := cluster.KillContainer(n.t.Context(), worker.Spec.NodeName, worker.Status.ContainerStatuses[0].ContainerID); err != nil {
		n.t.Fatalf("kill the worker: %v", err)
	}
}

// tellsOf waits until the DataVolume has told of something at least so many times. The recorder counts what has the same reason
// as one event, whatever its message.
func (n *tenant) tellsOf(reason string, times int) {
	n.t.Helper()
	var told []string
	n.eventually(soon, fmt.Sprintf("%d events %s", times, reason), func() error {
		seen := 0
		told = nil
		for _, e := range list(n, &corev1.EventList{}).Items {
			if e.Reason == reason && e.InvolvedObject.Kind == "DataVolume" {
				told = append(told, e.Message)
				seen++
				if e.Series != nil {
					seen += int(e.Series.Count) - 1
				}
			}
		}
		if seen < times {
			return fmt.Errorf("there are %d: %q", seen, told)
		}
		return nil
	})
	n.t.Logf("%s: %q", reason, told)
}

// A node is drained while a worker fills a disk there: the next goes on where the volume can be reached, and the disk is as if nothing had
// happened. It runs alone: other disks need both nodes.
func TestDrainedAtHalf(t *testing.T) {
	n := newTenant(t)
	half := n.importsHalf(blockNow)
	node := half.worker.Spec.NodeName
	n.cordon(node, true)
	t.Cleanup(func() { n.cordon(node, false) })
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: half.worker.Name}}
	if err := n.SubResource("eviction").Create(t.Context(), &half.worker, eviction); err != nil {
		t.Fatalf("evict the worker: %v", err)
	}
	n.eventually(soon, "another node has the worker", func() error {
		if w := n.worker(); w == nil || w.UID == half.worker.UID || w.Spec.NodeName == "" {
			return fmt.Errorf("the worker is %v", w)
		} else if w.Spec.NodeName == node {
			t.Fatalf("the next worker is on node %s, too", node)
		}
		return nil
	})
	n.tellsOf("ImportResumed", 1)
	half.endsWell(n, 2)
}

// cordon lets no pod come to a node, or lets them again.
func (n *tenant) cordon(node string, unschedulable bool) {
	n.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, unschedulable))
	if err := n.Patch(context.WithoutCancel(n.t.Context()), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch); err != nil {
		n.t.Errorf("cordon node %s (%v): %v", node, unschedulable, err)
	}
}

// A kubelet stops while its worker runs, for long enough that the node is taken for lost: the disk says so, no second worker comes, and the
// first one's work counts once the kubelet is back. It runs alone.
func TestLongKubeletStopped(t *testing.T) {
	n := newTenant(t)
	half := n.importsHalf(filesLater)
	node := half.worker.Spec.NodeName
	t.Cleanup(func() {
		if err := cluster.StartKubelet(context.WithoutCancel(t.Context()), cluster.Options{Out: os.Stderr, Source: clone}, node); err != nil {
			t.Errorf("start the kubelet of %s again: %v", node, err)
		}
	})
	if err := cluster.StopKubelet(node); err != nil {
		t.Fatal(err)
	}
	n.says("disk", filled, "node "+node+" is not ready since", "goes on once the node is back")
	if dv := get(n, "disk", &cdiv1.DataVolume{}); condition(dv, cdiv1.DataVolumeRunning).Reason != cdi.ReasonNodeNotReady {
		t.Errorf("its condition Running is %+v", condition(dv, cdiv1.DataVolumeRunning))
	}
	if err := cluster.StartKubelet(t.Context(), cluster.Options{Out: os.Stderr, Source: clone}, node); err != nil {
		t.Fatal(err)
	}
	half.endsWell(n, 1)
}

// The kubelet evicts a worker, here since its log takes more room than it may: the next goes on.
func TestEvictedAtHalf(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "no-room-for-logs"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("2Ki")},
		DefaultRequest: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Ki")},
	}}}}
	n.create(limits)
	workers := n.watchWorkers()
	evicted := n.watchEvictions()
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL("slow/1500000/" + qcow2File)}))
	n.eventually(filled, "the worker is evicted", func() error {
		if !evicted() {
			return fmt.Errorf("the workers are %v", workers.seen())
		}
		return nil
	})
	if err := n.Delete(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	n.becomesReady("disk")
	n.holds("disk", diskBytes, reference(t), dataBytes(n))
	n.leftAlone("disk") // restartCount stays 0: an eviction is no fault
	if workers.overlapped() {
		t.Error("two workers existed at one time")
	}
	n.tellsOf("ImportResumed", 1) // there may have been a second eviction, from which nothing went on
	t.Logf("it took %d workers", len(workers.seen()))
}

// A wish for a try is honoured long before the next one is due.
func TestRetry(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL("switch/" + n.name + "/" + qcow2File)}))
	n.says("disk", time.Minute, "404 Not Found", "attempt 4", "the next try is at")
	n.server().turnOn(n.name)
	workers := n.watchWorkers()
	disk := get(n, "disk", &v1alpha1.VMDisk{})
	before := disk.DeepCopy()
	metav1.SetMetaDataAnnotation(&disk.ObjectMeta, v1alpha1.RetryAnnotation, "now")
	if err := n.Patch(t.Context(), disk, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	n.eventually(soon, "the next worker is there", func() error {
		if len(workers.seen()) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	if took := time.Since(asked); took > 20*time.Second { // the fourth attempt is followed after 40
		t.Errorf("it took %s", took)
	}
	n.becomesReady("disk")
	n.holds("disk", diskBytes, reference(t), dataBytes(n))
}
