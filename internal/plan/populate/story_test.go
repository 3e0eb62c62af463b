package populate

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
)

var update = flag.Bool("update", false, "write the golden stories anew")

// story is a flow from a DataVolume's creation to its rest: what the other components do, a line each.
type story struct {
	sim   func() *sim
	lines []line
}

type line struct {
	what string
	do   func(*sim)
}

var (
	immediateClass = class("replicated", storagev1.VolumeBindingImmediate)
	waitingClass   = class("local", storagev1.VolumeBindingWaitForFirstConsumer)
	notFound       = job.Result{Outcome: job.SourceFailed, Reason: "NotFound", Message: "404 Not Found from https://images.example/debian.qcow2"}
	backingFile    = job.Result{Outcome: job.Refused, Reason: "BackingFile", Message: `the image needs a second file, "/etc/passwd": flatten it with qemu-img convert`}
)

func created(*sim)    {}
func binds(s *sim)    { s.bind() }
func half(s *sim)     { s.run(50, 100) }
func succeeds(s *sim) { s.end(job.Result{Outcome: job.Succeeded}) }
func fails(s *sim)    { s.end(notFound) }
func refuses(s *sim)  { s.end(backingFile) }
func interrupted(s *sim) {
	s.end(job.Result{Outcome: job.Interrupted, Reason: "Interrupted", Message: "the worker was told to stop"})
}
func goes(s *sim) { s.reap() }

func later(d time.Duration) func(*sim) {
	return func(s *sim) { s.now = s.now.Add(d) }
}

func stories() map[string]story {
	all := failureStories()
	maps.Copy(all, plainStories())
	maps.Copy(all, cloneStories())
	maps.Copy(all, imageStories())
	return all
}

func plainStories() map[string]story {
	return map[string]story{
		"import": {
			func() *sim { return newSim(dataVolume(nil), immediateClass) },
			[]line{{"created", created}, {"the volume is made", binds}, {"the worker runs", half}, {"the worker succeeds", succeeds}, {"its pod goes", goes}},
		},
		"import-immediate-on-waiting-class": {
			func() *sim {
				return newSim(dataVolume(func(dv *cdiv1.DataVolume) { dv.Annotations[cdi.BindImmediate] = "" }), waitingClass)
			},
			[]line{{"created", created}, {"the worker is scheduled, the volume is made", binds}, {"the worker runs", half}, {"the worker succeeds", succeeds}, {"its pod goes", goes}},
		},
		"import-waits-for-consumer": {
			func() *sim { return newSim(dataVolume(nil), waitingClass) },
			[]line{{"created", created}, {"a consumer's pod is scheduled, the volume is made", binds}, {"the worker runs", half}, {"the worker succeeds", succeeds}, {"its pod goes", goes}},
		},
		"source-fails-twice": {
			func() *sim { return newSim(dataVolume(nil), immediateClass) },
			[]line{
				{"created", created}, {"the volume is made", binds}, {"the worker runs", half}, {"404", fails}, {"its pod goes", goes},
				{"five seconds later", later(5 * time.Second)}, {"the second worker runs", half}, {"404 again", fails}, {"its pod goes", goes},
				{"ten seconds later", later(10 * time.Second)}, {"the third worker runs", half}, {"it succeeds", succeeds}, {"its pod goes", goes},
			},
		},
		"image-is-refused": {
			func() *sim { return newSim(dataVolume(nil), immediateClass) },
			[]line{{"created", created}, {"the volume is made", binds}, {"the worker runs", half}, {"the image needs another file", refuses}, {"its pod goes", goes}, {"a day later", later(24 * time.Hour)}},
		},
		"worker-is-deleted": {
			func() *sim { return newSim(dataVolume(nil), immediateClass) },
			[]line{
				{"created", created}, {"the volume is made", binds}, {"the worker runs", half},
				{"somebody deletes the pod", func(s *sim) { s.do(deleteWorker(s)) }}, {"the worker stops", interrupted}, {"its pod goes", goes},
				{"the second worker runs", half}, {"it succeeds", succeeds}, {"its pod goes", goes},
			},
		},
		"quota-has-no-room": {
			func() *sim {
				s := newSim(dataVolume(nil), immediateClass)
				s.refuse = `persistentvolumeclaims "web-root" is forbidden: exceeded quota: quota, requested: requests.storage=20Gi, used: requests.storage=0, limited: requests.storage=19Gi`
				return s
			},
			[]line{{"created", created}, {"the quota is raised", func(s *sim) { s.refuse = "" }}, {"the volume is made", binds}, {"the worker runs", half}, {"it succeeds", succeeds}, {"its pod goes", goes}},
		},
		"claim-is-deleted": {
			func() *sim { return newSim(dataVolume(nil), immediateClass) },
			[]line{
				{"created", created}, {"the volume is made", binds}, {"the worker runs", half},
				{"somebody deletes the claim", func(s *sim) {
					s.world.Claim = s.world.Claim.DeepCopy()
					s.world.Claim.DeletionTimestamp = &metav1.Time{Time: s.now}
				}},
				{"the worker stops", interrupted}, {"its pod goes", goes}, {"the claim goes", func(s *sim) { s.world.Claim = nil }},
				{"the new volume is made", binds}, {"the worker runs", half}, {"it succeeds", succeeds}, {"its pod goes", goes},
			},
		},
		"marked-as-filled-while-a-worker-writes": {
			func() *sim { return newSim(dataVolume(nil), immediateClass) },
			[]line{
				{"created", created}, {"the volume is made", binds}, {"the worker runs", half},
				{"somebody marks the claim as filled", func(s *sim) {
					s.world.Claim = s.world.Claim.DeepCopy()
					metav1.SetMetaDataAnnotation(&s.world.Claim.ObjectMeta, cdi.PopulatedFor, "web-root")
				}},
				{"the worker stops", interrupted}, {"its pod goes", goes},
			},
		},
		"static-volume": {
			func() *sim {
				s := newSim(dataVolume(func(dv *cdiv1.DataVolume) {
					dv.Annotations[cdi.CheckStaticVolume] = ""
					dv.Spec.Source = &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Name: "gone"}} // whence the bytes once came
				}), waitingClass)
				s.world.Static = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Spec: corev1.PersistentVolumeSpec{
					StorageClassName: "local", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeFilesystem)}}
				return s
			},
			[]line{{"created beside a volume that is reserved for its claim", created}, {"the two are bound", binds}},
		},
		"adopted": {
			func() *sim {
				s := newSim(dataVolume(func(dv *cdiv1.DataVolume) { dv.Annotations[cdi.AllowClaimAdoption] = "true" }), immediateClass)
				s.world.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "old"}}
				s.world.Claim.Status.Phase = corev1.ClaimBound
				return s
			},
			[]line{{"created beside a claim that nobody owns", created}},
		},
	}
}

func (s story) play(m *sim) {
	for _, l := range s.lines {
		m.printf("%s %s", m.now.Format("15:04:05"), l.what)
		l.do(m)
		m.settle()
	}
}

func TestStories(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			m := s.sim()
			s.play(m)
			if m.overlap {
				t.Error("a worker was to be made while another was there: two writers corrupt a disk")
			}
			golden := filepath.Join("testdata", name+".txt")
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

// TestStopAfterEveryActionAndRestart kills the controller after each action in turn, before it can do anything else, and wants the
// story to end as it does undisturbed.
func TestStopAfterEveryActionAndRestart(t *testing.T) {
	for name, s := range stories() {
		undisturbed := s.sim()
		s.play(undisturbed)
		for n := 1; n <= undisturbed.acted; n++ {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				m := s.sim()
				m.crashAt = n
				s.play(m)
				if diff := cmp.Diff(undisturbed.snapshot(), m.snapshot()); diff != "" || m.overlap {
					t.Errorf("the story ends differently: %s\n%s", diff, m.log.String())
				}
			})
		}
	}
}

// TestKubeVirtNeverStartsEarly asks KubeVirt's own question, with the API module's functions, at every moment of every story.
func TestKubeVirtNeverStartsEarly(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			m := s.sim()
			for _, l := range s.lines {
				l.do(m)
				for range 10 {
					m.reconcile()
					starts(t, m, l.what)
				}
			}
		})
	}
}

// TestKubeVirtBringsTheConsumer follows a disk that rests for it: KubeVirt's temporary pod comes exactly while it rests, the machine at the end.
func TestKubeVirtBringsTheConsumer(t *testing.T) {
	type asked struct{ TemporaryPod, Machine bool }
	m := newSim(dataVolume(nil), waitingClass)
	var got []asked
	for _, happens := range []func(*sim){created, binds, half, succeeds, goes} {
		happens(m)
		m.settle()
		get := func(string, string) (*cdiv1.DataVolume, error) { return m.world.DataVolume, nil }
		waits, err := cdiv1.IsWaitForFirstConsumerBeforePopulating(m.world.Claim, get)
		if err != nil {
			t.Fatal(err)
		}
		ready, err := cdiv1.IsSucceededOrPendingPopulation(m.world.Claim, get)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, asked{waits, ready})
	}
	want := []asked{{TemporaryPod: true}, {}, {}, {Machine: true}, {Machine: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func starts(t *testing.T, m *sim, what string) {
	t.Helper()
	if m.world.Claim == nil {
		return
	}
	get := func(string, string) (*cdiv1.DataVolume, error) { return m.world.DataVolume, nil }
	ready, err := cdiv1.IsSucceededOrPendingPopulation(m.world.Claim, get)
	if err != nil {
		t.Fatal(err)
	}
	if Handed(m.world.Claim) && m.world.Claim.Spec.VolumeName == "" {
		return // the machine's own pod is the first consumer then, and can't start before the claim has its volume
	}
	if ready && m.world.Claim.Annotations[cdi.PopulatedFor] == "" && metav1.GetControllerOf(m.world.Claim) != nil {
		t.Errorf("after %q KubeVirt would start the machine on a disk without its bytes: phase %s", what, m.world.DataVolume.Status.Phase)
	}
}

// TestPlayedStatusIsStable plans twice from the same world: the second status must equal the first, or the controller would wake itself for ever.
func TestPlayedStatusIsStable(t *testing.T) {
	for name, s := range stories() {
		t.Run(name, func(t *testing.T) {
			m := s.sim()
			s.play(m)
			d := Plan(m.world, m.now.Add(time.Hour))
			if diff := cmp.Diff(m.world.DataVolume.Status, d.Status); diff != "" || len(d.Actions) > 0 || len(d.Events) > 0 {
				t.Errorf("at rest, an hour later: %s, actions %v, events %v", diff, d.Actions, d.Events)
			}
		})
	}
}
