package disk

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

func TestWhatBecomesOfARetry(t *testing.T) {
	d := vmdisk(nil)
	going := vmdisk(func(d *v1alpha1.VMDisk) { d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })
	failed := made(d, cdiv1.Failed, condition(bound, "True", "Bound", "PVC web-root Bound"), condition(runs, "False", "ChecksumError", "another checksum"))
	bare := failed.DeepCopy()
	bare.OwnerReferences = nil
	type answer struct {
		Asks     string
		Sentence string
		Hopeless bool
	}
	for name, c := range map[string]struct {
		world World
		want  answer
	}{
		"no disk":                   {World{}, answer{"", "there is no such disk", true}},
		"a disk that goes":          {World{Disk: going, DataVolume: failed}, answer{"", "VMDisk web-root is being deleted: it is not tried any more", true}},
		"a disk that has not begun": {World{Disk: d}, answer{"disk-uid", "VMDisk web-root has not begun: DataVolume web-root is not there yet. What can be done about that is tried again now", false}},
		"somebody else's DataVolume": {World{Disk: d, DataVolume: bare}, answer{"disk-uid",
			"VMDisk web-root has not begun: DataVolume web-root exists already and is not this disk's: delete it, or choose another name for the disk. What can be done about that is tried again now", false}},
		"a disk that is fine": {World{Disk: d, DataVolume: made(d, cdiv1.Succeeded)}, answer{"", "VMDisk web-root is fine: it holds its bytes, and nothing is done", false}},
		"a disk that failed": {World{Disk: d, DataVolume: failed}, answer{"disk-uid",
			"VMDisk web-root has failed: another checksum. It is tried again now: the same volume is filled anew, and nothing is deleted", false}},
		"a DataVolume that failed": {World{DataVolume: bare}, answer{"",
			"DataVolume web-root has failed: another checksum. It is tried again now: the same volume is filled anew, and nothing is deleted", false}},
		"a volume that is lost": {World{Disk: d, DataVolume: made(d, cdiv1.Failed, condition(bound, "False", "ClaimLost", "the volume is gone"))}, answer{"",
			"VMDisk web-root can't be tried again: the volume is gone", true}},
		"a worker that runs": {World{Disk: d, DataVolume: made(d, cdiv1.ImportInProgress, condition(runs, "True", "Pod is running", ""))}, answer{"",
			"VMDisk web-root is being filled just now (N/A): nothing is done", false}},
		"a wait for the consumer": {World{Disk: d, DataVolume: made(d, cdiv1.WaitForFirstConsumer, condition(bound, "False", "Pending", "PVC web-root Pending"))}, answer{"",
			"VMDisk web-root waits for its first consumer, and a try would wait as well: start its virtual machine, or let it bind immediately", false}},
		"a wait for the next try": {World{Disk: d, DataVolume: made(d, cdiv1.ImportInProgress, condition(runs, "False", "Error", "404 from x (attempt 7; the next try is at 20:05:00 UTC)"))}, answer{"disk-uid",
			"VMDisk web-root waits: 404 from x (attempt 7; the next try is at 20:05:00 UTC). It is tried again now, and goes on where the last attempt stopped if that is possible", false}},
		"a wait for a quota": {World{Disk: d, DataVolume: made(d, cdiv1.Pending, condition(bound, "False", "ErrExceededQuota", `quota "q" has no room`))}, answer{"disk-uid",
			`VMDisk web-root waits: quota "q" has no room. It is tried again now, and needs what it waits for all the same`, false}},
		"a worker that is on its way": {World{Disk: d, DataVolume: made(d, cdiv1.ImportScheduled, condition(bound, "True", "Bound", ""))}, answer{"disk-uid",
			"VMDisk web-root is on its way. It is tried again now if it waits for anything", false}},
	} {
		t.Run(name, func(t *testing.T) {
			r := RetryOf(c.world)
			got := answer{Sentence: r.Sentence, Hopeless: r.Hopeless}
			if r.Ask != nil {
				got.Asks = string(r.Ask.GetUID())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if name == "a DataVolume that failed" && r.Ask != c.world.DataVolume {
				t.Error("the DataVolume is not asked")
			}
		})
	}
}

func TestAWishForARetryReachesTheDataVolumeOnce(t *testing.T) {
	d := vmdisk(nil)
	w := World{Disk: d, DataVolume: made(d, cdiv1.Failed)}
	w.Disk = vmdisk(func(d *v1alpha1.VMDisk) { d.Annotations = map[string]string{v1alpha1.RetryAnnotation: "1"} })
	var got [][]string
	for range 2 {
		var acts []string
		for _, a := range w.follow() {
			acts = append(acts, a.String())
			w.DataVolume.Annotations[v1alpha1.RetryAnnotation] = "1"
		}
		got = append(got, acts)
	}
	if diff := cmp.Diff([][]string{{"annotate DataVolume web-root"}, nil}, got); diff != "" {
		t.Error(diff)
	}
}
