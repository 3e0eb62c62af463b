package disk

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/pod"
)

var update = flag.Bool("update", false, "write the golden stories anew")

// story is how a disk grows: what people and other components do, a line each.
type story struct {
	mode  corev1.PersistentVolumeMode
	lines []line
}

type line struct {
	what string
	do   func(*sim)
}

const (
	block = corev1.PersistentVolumeBlock
	files = corev1.PersistentVolumeFilesystem
)

func stories() map[string]story {
	later := func(d time.Duration) func(*sim) { return func(s *sim) { s.now = s.now.Add(d) } }
	grown := job.Result{Outcome: job.Succeeded, VirtualBytes: 30 << 30}
	noRoom := job.Result{Outcome: job.TargetFailed, Reason: "FilesystemTooSmall", Message: "the disk needs a file of 32212254720 bytes, and the volume's filesystem has room for 21474836480"}
	wants := line{"storage becomes 30Gi", func(s *sim) { s.wants("30Gi") }}
	enlarged := line{"the driver makes the volume larger", (*sim).enlarge}
	noticed := line{"the node notices", (*sim).notice}
	worked := line{"the worker succeeds", func(s *sim) { s.end(grown) }}
	begin := line{"the disk is there", func(*sim) {}}
	return map[string]story{
		"block": {block, []line{begin, wants, enlarged}},
		"file":  {files, []line{begin, wants, enlarged, noticed, worked}},
		"file-in-use": {files, []line{
			{"a machine runs", func(s *sim) { s.uses("pod virt-launcher-web") }}, wants, enlarged, noticed, {"the machine stops", func(s *sim) { s.uses() }}, worked,
		}},
		"machine-starts-before-the-worker": {files, []line{
			begin, wants, enlarged, {"a machine starts", func(s *sim) { s.uses("pod virt-launcher-web") }}, noticed, {"it stops", func(s *sim) { s.uses() }}, worked,
		}},
		"file-finds-no-room": {files, []line{
			begin, wants, enlarged, {"the worker finds no room", func(s *sim) { s.end(noRoom) }}, {"half a minute later", later(30 * time.Second)},
			{"half a minute later", later(30 * time.Second)}, worked,
		}},
		"twice-at-once": {files, []line{begin, wants, enlarged, {"storage becomes 40Gi", func(s *sim) { s.wants("40Gi") }},
			{"the worker for 30Gi succeeds", func(s *sim) { s.end(grown) }}, enlarged, worked}},
		"class-does-not-grow": {block, []line{
			{"the class does not allow it", func(s *sim) { s.world.Growth.Cluster.Classes[0].AllowVolumeExpansion = nil }}, wants,
			{"the administrator allows it", func(s *sim) { s.world.Growth.Cluster.Classes[0].AllowVolumeExpansion = new(true) }}, enlarged,
		}},
		"quota-has-no-room": {block, []line{
			{"a quota of 25Gi", func(s *sim) {
				s.refuse = `persistentvolumeclaims "web-root" is forbidden: exceeded quota: quota, requested: requests.storage=10Gi, used: requests.storage=20Gi, limited: requests.storage=25Gi`
			}}, wants, {"the quota is raised", func(s *sim) { s.refuse = "" }}, enlarged,
		}},
		"while-it-is-filled": {block, []line{
			{"the disk is being filled", func(s *sim) { s.world.DataVolume.Status.Phase = cdiv1.ImportInProgress }}, wants,
			{"it is filled", func(s *sim) {
				s.world.DataVolume = s.world.DataVolume.DeepCopy()
				s.world.DataVolume.Status.Phase = cdiv1.Succeeded
			}}, enlarged,
		}},
		"restored-smaller": {block, []line{
			{"a disk of 30Gi is made from a claim of 20Gi that was kept", func(s *sim) {
				s.wants("30Gi")
				s.world.DataVolume.Spec.Storage.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("30Gi")
			}}, enlarged,
		}},
	}
}

func (s story) play(m *sim) {
	for _, l := range s.lines {
		m.printf("%s %s", m.now.Format("15:04:05"), l.what)
		l.do(m)
		m.settle()
	}
}

func TestStoriesOfGrowing(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			m := newSim(s.mode)
			s.play(m)
			golden := filepath.Join("testdata", "grow-"+name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(m.log.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), m.log.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStopAfterEveryActionAndRestart kills the controller after each action in turn, and wants the story to end as it does undisturbed.
func TestStopAfterEveryActionAndRestart(t *testing.T) {
	for name, s := range stories() {
		undisturbed := newSim(s.mode)
		s.play(undisturbed)
		for n := 1; n <= undisturbed.acted; n++ {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				m := newSim(s.mode)
				m.crashAt = n
				s.play(m)
				if diff := cmp.Diff(undisturbed.snapshot(), m.snapshot()); diff != "" {
					t.Errorf("the story ends differently: %s\n%s", diff, m.log.String())
				}
			})
		}
	}
}

// TestAtRest plans once more an hour later: nothing is done and nothing is told again.
func TestAtRest(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			m := newSim(s.mode)
			s.play(m)
			d := Plan(m.world, m.now.Add(time.Hour))
			if diff := cmp.Diff(m.world.Disk.Status, d.Status); diff != "" || len(d.Actions) > 0 || len(d.Events) > 0 || d.Again != 0 {
				t.Errorf("%s, actions %v, events %v, again %v", diff, d.Actions, d.Events, d.Again)
			}
		})
	}
}

func TestWhatHoldsAGrowthUpIsTold(t *testing.T) {
	condition := func(kind corev1.PersistentVolumeClaimConditionType, message string) corev1.PersistentVolumeClaimCondition {
		return corev1.PersistentVolumeClaimCondition{Type: kind, Status: corev1.ConditionTrue, Message: message}
	}
	type said struct{ Reason, Message string }
	for name, c := range map[string]struct {
		mode  corev1.PersistentVolumeMode
		world func(*sim)
		want  said
	}{
		"the pool has no room": {block, func(s *sim) {
			s.world.Claim.Status.Conditions = append(s.world.Claim.Status.Conditions, condition(corev1.PersistentVolumeClaimControllerResizeError, "rpc error: code = ResourceExhausted desc = the pool is full"))
		}, said{ResizeFailed, "the storage driver could not make the volume larger: the pool is full"}},
		"the same from a resizer that only tells it in an event": {block, func(s *sim) {
			e := corev1.Event{Reason: "VolumeResizeFailed", Message: "resize volume \"pvc-1\" by resizer \"x\" failed: rpc error: code = ResourceExhausted desc = the pool is full"}
			e.InvolvedObject.UID = s.world.Claim.UID
			s.world.Growth.Warnings = append(s.world.Growth.Warnings, e)
		}, said{ResizeFailed, "the storage driver could not make the volume larger: the pool is full"}},
		"a device whose node has to follow": {block, func(s *sim) {
			s.world.Claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{"storage": corev1.PersistentVolumeClaimNodeResizePending}
		}, said{FileSystemResizePending, "the volume of claim web-root is larger; the node that uses it has to follow, at the latest when a pod or virtual machine uses it next"}},
		"a node that can't": {files, func(s *sim) {
			s.enlarge()
			s.uses("pod virt-launcher-web")
			s.world.Claim.Status.Conditions = append(s.world.Claim.Status.Conditions, condition(corev1.PersistentVolumeClaimNodeResizeError, "rpc error: code = Internal desc = resize2fs failed"))
		}, said{ResizeFailed, "the volume is larger, and the node could not follow: resize2fs failed"}},
		"no node takes the worker": {files, func(s *sim) {
			s.enlarge()
			s.settle()
			s.world.Growth.Worker.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/2 nodes are available"}}
		}, said{ResizeFailed, "the worker that makes the disk larger does not start: no node takes the worker: 0/2 nodes are available"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSim(c.mode)
			m.wants("30Gi")
			m.settle()
			m.world.Claim = m.world.Claim.DeepCopy()
			c.world(m)
			m.settle()
			got := meta.FindStatusCondition(m.world.Disk.Status.Conditions, v1alpha1.ConditionResizing)
			if got == nil || got.Status != metav1.ConditionTrue {
				t.Fatalf("it is %+v, want True", got)
			}
			if diff := cmp.Diff(c.want, said{got.Reason, got.Message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNothingGrowsByItself: neither what a disk is judged by, nor a claim that is another's, makes one larger.
func TestNothingGrowsByItself(t *testing.T) {
	for name, world := range map[string]func(*sim){
		"nothing has changed": func(*sim) {},
		"the overhead is larger by now": func(s *sim) {
			s.world.Growth.Cluster.Config = &cdiv1.CDIConfig{Status: cdiv1.CDIConfigStatus{FilesystemOverhead: &cdiv1.FilesystemOverhead{Global: "0.5"}}}
		},
		"the claim has grown otherwise": func(s *sim) {
			s.world.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("50Gi")
		},
		"the disk has grown before it was made again with less": func(s *sim) { s.world.Claim.Annotations[v1alpha1.DiskSizeAnnotation] = "40Gi" },
		"the claim is another's":                                func(s *sim) { s.wants("30Gi"); s.world.Claim.OwnerReferences = nil },
		"the claim is being deleted":                            func(s *sim) { s.wants("30Gi"); s.world.Claim.DeletionTimestamp = &metav1.Time{Time: s.now} },
		"the DataVolume is another's":                           func(s *sim) { s.wants("30Gi"); s.world.DataVolume.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []corev1.PersistentVolumeMode{block, files} {
				m := newSim(mode)
				world(m)
				if d := Plan(m.world, m.now); len(d.Actions) > 0 {
					t.Errorf("%s: it does %v", mode, d.Actions)
				}
			}
		})
	}
}

// TestAWorkerWithoutACauseGoes: a claim that is being deleted waits for the last pod that uses it.
func TestAWorkerWithoutACauseGoes(t *testing.T) {
	for name, change := range map[string]func(*sim){
		"the claim is being deleted": func(s *sim) { s.world.Claim.DeletionTimestamp = &metav1.Time{Time: s.now} },
		"the disk has its size":      func(s *sim) { s.world.Claim.Annotations[v1alpha1.DiskSizeAnnotation] = "30Gi" },
	} {
		t.Run(name, func(t *testing.T) {
			m := newSim(files)
			m.wants("30Gi")
			m.settle()
			m.enlarge()
			m.settle()
			if m.world.Growth.Worker == nil {
				t.Fatal("there is no worker")
			}
			m.world.Claim = m.world.Claim.DeepCopy()
			change(m)
			m.settle()
			if m.world.Growth.Worker != nil {
				t.Error("the worker stays")
			}
		})
	}
}

func TestTheWorkerIsToldWhatTheDiskIs(t *testing.T) {
	m := newSim(files)
	m.world.Disk.Spec.Placement = &v1alpha1.Placement{NodeSelector: map[string]string{"zone": "a"}}
	m.world.Claim.Annotations[cdi.Preallocation] = "true"
	m.wants("32212254721") // a byte above 30Gi
	m.settle()
	m.enlarge()
	m.settle()
	worker := m.world.Growth.Worker
	spec, err := job.ParseSpec(worker.Spec.Containers[0].Env[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	want := job.Spec{Version: job.Version, Disk: "tenant-a/web-root", Attempt: 1, Grow: true,
		Target: job.Target{Kind: job.File, Path: "/disk/disk.img", SizeBytes: 30<<30 + 512, Preallocate: true}}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Error(diff)
	}
	if worker.Name != "grower-claim-uid" || worker.Spec.NodeSelector["zone"] != "a" || !metav1.IsControlledBy(worker, m.world.Disk) {
		t.Errorf("the worker is %s, on nodes with %v, of %v", worker.Name, worker.Spec.NodeSelector, worker.OwnerReferences)
	}
}

func TestWhoUsesAClaim(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "web-root", UID: "claim-uid"}}
	with := func(name, claim string, phase corev1.PodPhase) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase}}
		p.Spec.Volumes = []corev1.Volume{{Name: "other"}, {Name: "disk", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		return p
	}
	got := UsersOf(claim, []corev1.Pod{
		with("virt-launcher", "web-root", corev1.PodRunning), with("waits", "web-root", corev1.PodPending), with("elsewhere", "web-data", corev1.PodRunning),
		with("was", "web-root", corev1.PodSucceeded), with("failed", "web-root", corev1.PodFailed), with(pod.GrowerName("claim-uid"), "web-root", corev1.PodRunning),
	})
	if diff := cmp.Diff([]string{"pod virt-launcher", "pod waits"}, got); diff != "" {
		t.Error(diff)
	}
}
