package status_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/status"
)

var update = flag.Bool("update", false, "write the golden screens anew")

const quotaText = `persistentvolumeclaims "web-root" is forbidden: exceeded quota: tenant, requested: requests.storage=20Gi, used: requests.storage=1Gi, limited: requests.storage=20Gi`

var (
	notFound = job.Result{Outcome: job.SourceFailed, Reason: "NotFound", Message: "404 Not Found from https://images.example/debian.qcow2"}
	backing  = job.Result{Outcome: job.Refused, Reason: "BackingFile", Message: `the image needs a second file, "/etc/passwd": flatten it with qemu-img convert`}
	wrongSum = job.Result{Outcome: job.Refused, Reason: "ChecksumMismatch", Message: "the bytes have sha256:00…, not sha256:ff…"}
)

// screen is a disk in a state. Its name begins with the state's number in docs/STATES.md, or with "disk" where the VMDisk decides.
type screen struct {
	mode storagev1.VolumeBindingMode // empty: Immediate
	do   func(*cluster)
	seen func(*status.Seen)
}

func screens() map[string]screen {
	return map[string]screen{
		"01-no-class": {do: func(c *cluster) { c.world.Cluster.Classes = nil; c.settle() }},
		"02-quota": {do: func(c *cluster) {
			c.world.DataVolume = c.made()
			c.refuse = quotaText
			c.settle()
			c.later(time.Minute)
		}},
		"03-claim-in-the-way": {do: func(c *cluster) { c.world.Claim = foreign(); c.settle() }},
		"04-claim-goes":       {do: func(c *cluster) { c.settle(); c.world.Claim.DeletionTimestamp = &metav1.Time{Time: c.now}; c.settle() }},
		"05-volume-lost":      {do: func(c *cluster) { c.settle(); c.world.Claim.Status.Phase = corev1.ClaimLost; c.settle() }},
		"06-filled": {do: func(c *cluster) {
			c.filling()
			c.end(job.Result{Outcome: job.Succeeded})
			c.settle()
			c.reap()
			c.settle()
			c.later(time.Hour)
		}},
		"07-image-refused":      {do: func(c *cluster) { c.filling(); c.end(backing); c.settle(); c.reap(); c.settle() }},
		"07-wrong-checksum":     {do: func(c *cluster) { c.filling(); c.end(wrongSum); c.settle(); c.reap(); c.settle() }},
		"08-rests":              {mode: storagev1.VolumeBindingWaitForFirstConsumer, do: func(c *cluster) { c.disk.Spec.BindImmediately = new(false); c.settle() }},
		"08-rests-no-vmdisk":    {mode: storagev1.VolumeBindingWaitForFirstConsumer, do: func(c *cluster) { c.disk.Spec.BindImmediately = new(false); c.settle() }, seen: bare},
		"08-consumer-no-volume": {mode: storagev1.VolumeBindingWaitForFirstConsumer, do: (*cluster).consumerWithoutVolume},
		"09-not-bound":          {do: func(c *cluster) { c.settle(); c.later(3 * time.Second) }},
		"09-driver-complains":   {do: (*cluster).driverComplains},
		"10-next-try": {do: func(c *cluster) {
			c.filling()
			c.end(notFound)
			c.settle()
			c.reap()
			c.settle()
			c.later(2 * time.Second)
		}},
		"11-worker-refused": {do: func(c *cluster) {
			c.settle()
			c.bind()
			c.refuse = strings.ReplaceAll(quotaText, "requests.storage", "pods")
			c.settle()
		}},
		"12-unschedulable": {do: (*cluster).unschedulable},
		"12-image-pull":    {do: (*cluster).imagePull},
		"12-starting":      {do: func(c *cluster) { c.settle(); c.bind(); c.settle(); c.later(time.Second) }},
		"13-filling":       {do: func(c *cluster) { c.filling(); c.later(8 * time.Second) }},
		"13-filling-length-open": {do: func(c *cluster) {
			c.filling()
			c.world.Log.Progress.TotalBytes = 0
			c.settle()
			c.later(8 * time.Second)
		}},
		"13-filling-again":        {do: (*cluster).fillingAgain},
		"13-filling-few-rights":   {do: func(c *cluster) { c.filling(); c.later(8 * time.Second) }, seen: fewRights},
		"13-filling-disk-only":    {do: func(c *cluster) { c.filling(); c.later(8 * time.Second) }, seen: diskOnly},
		"14-worker-goes":          {do: func(c *cluster) { c.filling(); c.end(notFound); c.settle(); c.later(20 * time.Second); c.settle() }},
		"disk-new":                {do: func(c *cluster) {}},
		"disk-nobody-looks":       {do: func(c *cluster) { c.later(time.Minute) }},
		"disk-changed":            {do: func(c *cluster) { c.settle(); c.disk.Generation = 2 }},
		"disk-grown":              {do: func(c *cluster) { c.settle(); c.disk.Spec.Storage = new(resource.MustParse("30Gi")); c.settle() }},
		"disk-no-datavolume":      {do: func(c *cluster) { c.settle(); c.later(time.Minute) }, seen: func(s *status.Seen) { s.DataVolume, s.Claim = nil, nil }},
		"disk-source-not-served":  {do: func(c *cluster) { c.disk.Spec.Source = &v1alpha1.Source{Upload: &v1alpha1.UploadSource{}}; c.settle() }},
		"disk-datavolume-foreign": {do: func(c *cluster) { c.world.DataVolume = c.made(); c.world.DataVolume.OwnerReferences = nil; c.settle() }},
		"disk-datavolume-refused": {do: func(c *cluster) {
			c.refuse = `admission webhook "policy" denied the request: no disks on Fridays`
			c.settle()
		}},
		"disk-goes": {do: func(c *cluster) {
			c.settle()
			c.disk.DeletionTimestamp = &metav1.Time{Time: c.now}
			c.disk.Finalizers = []string{"backup.example/keep"}
		}},
		"datavolume-new":    {do: func(c *cluster) { c.world.DataVolume = c.made() }, seen: bare},
		"datavolume-goes":   {do: func(c *cluster) { c.settle(); c.world.DataVolume.DeletionTimestamp = &metav1.Time{Time: c.now} }, seen: bare},
		"datavolume-of-cdi": {do: func(c *cluster) { c.settle(); c.world.DataVolume.Status.Phase = cdiv1.CloneInProgress }, seen: bare},
	}
}

// made is the DataVolume that the disk's controller makes.
func (c *cluster) made() *cdiv1.DataVolume {
	other := newCluster(storagev1.VolumeBindingImmediate)
	other.settle()
	dv := other.world.DataVolume
	dv.Status = cdiv1.DataVolumeStatus{}
	return dv
}

func foreign() *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "claim"}}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Status.Phase = corev1.ClaimBound
	return claim
}

func (c *cluster) filling() {
	c.settle()
	c.bind()
	c.settle()
	c.later(2 * time.Second)
	c.run(512<<20, 1226<<20)
	c.settle()
}

func (c *cluster) fillingAgain() {
	c.filling()
	c.end(notFound)
	c.settle()
	c.reap()
	c.settle()
	c.later(10 * time.Second)
	c.settle()
	c.run(100<<20, 1226<<20)
	c.settle()
	c.later(4 * time.Second)
}

func (c *cluster) driverComplains() {
	c.settle()
	c.warn("claim", "PersistentVolumeClaim", "ProvisioningFailed", "failed to provision volume: rpc error: code = ResourceExhausted desc = no space in pool fast")
	c.settle()
	c.later(30 * time.Second)
}

func (c *cluster) consumerWithoutVolume() {
	c.disk.Spec.BindImmediately = new(false)
	c.settle()
	c.driverComplains()
}

func (c *cluster) unschedulable() {
	c.settle()
	c.bind()
	c.settle()
	c.world.Worker.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/2 nodes are available: 2 Insufficient cpu."}}
	c.settle()
	c.later(time.Minute)
}

func (c *cluster) imagePull() {
	c.settle()
	c.bind()
	c.settle()
	c.world.Worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "importer", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "vmdisk:test"`},
	}}}
	c.settle()
}

func bare(s *status.Seen) {
	s.Disk = nil
	s.DataVolume.OwnerReferences = nil
}

func fewRights(s *status.Seen) {
	s.Worker, s.Progress = nil, nil
	s.Unread = []string{`the worker: pods "importer-claim" is forbidden: User "viewer" cannot get resource "pods" in API group "" in the namespace "tenant-a"`}
}

func diskOnly(s *status.Seen) {
	s.DataVolume, s.Claim, s.Worker, s.Progress, s.DataVolumeUnread = nil, nil, nil, nil, true
	s.Unread = []string{"the DataVolume: it is forbidden"}
}

func TestScreens(t *testing.T) {
	for name, test := range screens() {
		t.Run(name, func(t *testing.T) {
			if test.mode == "" {
				test.mode = storagev1.VolumeBindingImmediate
			}
			c := newCluster(test.mode)
			test.do(c)
			seen := c.seen()
			if test.seen != nil {
				test.seen(&seen)
			}
			r := status.Of(seen, nil)
			got := fmt.Sprintf("%s\n\n%s", r.State, r.Text())
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(got, "secret") || strings.Contains(got, "word@") {
				t.Error("the screen shows what is secret in the URL")
			}
		})
	}
}

// TestEveryStateOfTheDocsIsShown: docs/STATES.md has no state without a screen.
func TestEveryStateOfTheDocsIsShown(t *testing.T) {
	text, err := os.ReadFile("../../../docs/STATES.md")
	if err != nil {
		t.Fatal(err)
	}
	states := regexp.MustCompile(`(?m)^(\d+)\. \*\*`).FindAllStringSubmatch(string(text), -1)
	if len(states) < 14 {
		t.Fatalf("found only %d states", len(states))
	}
	var names []string
	for name := range screens() {
		names = append(names, name)
	}
	for _, state := range states {
		prefix := fmt.Sprintf("%02s-", state[1])
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("no screen shows state %s", state[1])
		}
	}
}

func TestTheRateIsTakenFromTwoLooks(t *testing.T) {
	c := newCluster(storagev1.VolumeBindingImmediate)
	c.filling()
	c.later(10 * time.Second)
	before := c.seen()
	c.world.Log.Progress = job.Progress{DoneBytes: 612 << 20, TotalBytes: 1226 << 20}
	c.later(2 * time.Second)
	for name, test := range map[string]struct {
		before *status.Seen
		change func(now *status.Seen)
		want   status.Progress
	}{
		"two looks": {&before, func(*status.Seen) {}, status.Progress{BytesPerSecond: 50 << 20, SecondsLeft: 12}},
		"one look":  {nil, func(*status.Seen) {}, status.Progress{BytesPerSecond: 51 << 20, SecondsLeft: 12, Average: true}},
		"another worker": {&before, func(now *status.Seen) {
			now.Worker = now.Worker.DeepCopy()
			now.Worker.UID = "another"
		}, status.Progress{BytesPerSecond: 51 << 20, SecondsLeft: 12, Average: true}},
		"it has just begun": {nil, func(now *status.Seen) {
			now.Worker = now.Worker.DeepCopy()
			now.Worker.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: now.At}
		}, status.Progress{Average: true}},
	} {
		t.Run(name, func(t *testing.T) {
			now := c.seen()
			test.change(&now)
			test.want.DoneBytes, test.want.TotalBytes, test.want.Percent = 612<<20, 1226<<20, 100*612.0/1226
			if diff := cmp.Diff(&test.want, status.Of(now, test.before).Progress); diff != "" {
				t.Error(diff)
			}
		})
	}
}
