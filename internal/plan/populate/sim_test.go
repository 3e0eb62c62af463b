package populate

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// sim is a cluster of one DataVolume in memory: it does what actions say, plays the other components when a story tells it to, and writes
// down what a user would see. Its clock stands still unless told otherwise.
type sim struct {
	world         World
	now           time.Time
	uids          int
	refuse        string // the API server's words to the next creation, or, if refuseChanges, to the next change
	refuseChanges bool
	crashAt       int // the number of the action after which the controller dies once; 0: never
	acted         int
	log           strings.Builder
	overlap       bool   // a worker was to be made beside another
	away          *Away  // what is made in the source's namespace
	clone         *Clone // what the disk is made from; nil: it isn't made from another volume
}

func newSim(dv *cdiv1.DataVolume, classes ...storagev1.StorageClass) *sim {
	s := &sim{now: time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)}
	s.world = World{
		DataVolume: dv,
		Cluster:    volume.Cluster{Classes: classes, Profiles: profilesOf(classes)},
		Settings:   pod.Settings{Image: "vmdisk:test", Patience: 10 * time.Minute},
	}
	return s
}

func profilesOf(classes []storagev1.StorageClass) []cdiv1.StorageProfile {
	var profiles []cdiv1.StorageProfile
	for _, c := range classes {
		p := cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
		p.Status.ClaimPropertySets = []cdiv1.ClaimPropertySet{{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeMode:  new(corev1.PersistentVolumeBlock),
		}}
		profiles = append(profiles, p)
	}
	return profiles
}

// settle reconciles until nothing changes any more, as a controller does that is woken by its own writes.
func (s *sim) settle() {
	for range 20 {
		before := s.snapshot()
		died := s.reconcile()
		if s.snapshot() == before && !died { // a restarted controller looks at everything again
			return
		}
	}
	panic("the controller never comes to rest")
}

// reconcile is one pass, and says whether the controller died in it.
func (s *sim) reconcile() bool {
	s.world.Refusal = nil
	if s.world.Clone = s.clone; s.world.DataVolume.Status.Phase == cdiv1.Succeeded && s.world.Claim != nil {
		s.world.Clone = nil // as the controller does
	}
	s.seeAway()
	d := Plan(s.world, s.now)
	defer s.bindHanded()
	for _, a := range d.Actions {
		refusal := s.do(a)
		if refusal != nil {
			s.world.Refusal = refusal
			d = Plan(s.world, s.now)
			break
		}
		if s.acted++; s.acted == s.crashAt {
			return true // no further action, no status, no events
		}
	}
	for _, e := range d.Events {
		s.printf("  event   %s %s: %s", e.Type, e.Reason, e.Message)
	}
	old := s.world.DataVolume.Status
	s.world.DataVolume = s.world.DataVolume.DeepCopy()
	s.world.DataVolume.Status = d.Status
	if line := statusLine(d.Status); line != statusLine(old) {
		s.printf("  status  %s", line)
	}
	return false
}

func (s *sim) do(a action.Action) *action.Refusal {
	if _, creates := a.(action.Create); s.refuse != "" && creates != s.refuseChanges {
		s.printf("  refused %s", a)
		return &action.Refusal{Action: a, Text: s.refuse}
	}
	s.printf("  act     %s", a)
	switch a := a.(type) {
	case action.Create:
		switch o := a.Object.DeepCopyObject().(type) {
		case *corev1.PersistentVolumeClaim:
			if s.world.Claim == nil {
				o.UID, o.Status.Phase, o.CreationTimestamp = s.uid(), corev1.ClaimPending, metav1.Time{Time: s.now}
				s.world.Claim = o
			}
		case *unstructured.Unstructured:
			s.makeSnapshot(o)
		case *cdiv1.DataVolume:
			s.makeAway(o)
		case *corev1.Pod:
			s.overlap = s.overlap || s.world.Worker != nil
			if s.world.Worker == nil {
				o.UID, o.Status.Phase, o.CreationTimestamp = s.uid(), corev1.PodPending, metav1.Time{Time: s.now}
				s.world.Worker = o
				if spec := s.told(); spec.Checkpoint != "" {
					s.printf("          it goes on from %s", spec.Checkpoint)
				}
			}
		}
	case action.Expand:
		s.world.Claim = s.world.Claim.DeepCopy()
		s.world.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(a.Bytes, resource.BinarySI)
	case action.Delete:
		s.deleteForClone(a.Object.GetUID())
		s.deleteAway(a.Object.GetUID())
		if s.world.Worker != nil && s.world.Worker.UID == a.Object.GetUID() {
			s.world.Worker = s.world.Worker.DeepCopy()
			s.world.Worker.DeletionTimestamp = &metav1.Time{Time: s.now}
		}
	case action.Annotate:
		s.annotate(a)
	case action.Reclaim, action.Hand:
		s.changeVolume(a)
	case action.Own:
		s.world.Claim = s.world.Claim.DeepCopy()
		s.world.Claim.OwnerReferences = append(s.world.Claim.OwnerReferences, a.Owner)
	}
	return nil
}

func (s *sim) annotate(a action.Annotate) {
	var o action.Object
	if a.Object.GetUID() == s.world.DataVolume.UID {
		s.world.DataVolume = s.world.DataVolume.DeepCopy()
		o = s.world.DataVolume
	} else {
		s.world.Claim = s.world.Claim.DeepCopy()
		o = s.world.Claim
	}
	m := map[string]string{}
	for k, v := range o.GetAnnotations() {
		m[k] = v
	}
	for k, v := range a.Annotations {
		m[k] = v
	}
	o.SetAnnotations(m)
}

func (s *sim) uid() types.UID {
	s.uids++
	return types.UID(fmt.Sprintf("uid-%d", s.uids))
}

func (s *sim) printf(format string, args ...any) { fmt.Fprintf(&s.log, format+"\n", args...) }

// snapshot is the world as text, to see whether anything has changed.
func (s *sim) snapshot() string {
	b, err := json.Marshal([]any{s.world.DataVolume, s.world.Claim, s.world.Worker, s.clone, s.away})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// What other components do.

func (s *sim) bind() {
	s.world.Claim = s.world.Claim.DeepCopy()
	s.world.Claim.Spec.VolumeName = "pv-" + string(s.world.Claim.UID)
	s.world.Claim.Status.Phase = corev1.ClaimBound
}

func (s *sim) run(done, total int64) { s.show(job.Progress{DoneBytes: done, TotalBytes: total}) }

// show is a worker that runs and prints a line.
func (s *sim) show(p job.Progress) {
	if s.world.Worker.Status.Phase != corev1.PodRunning {
		s.world.Worker = s.world.Worker.DeepCopy()
		s.world.Worker.Spec.NodeName = "node-a"
		s.world.Worker.Status.Phase = corev1.PodRunning
		s.world.Worker.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: s.now}}},
		}}
	}
	s.world.Log = &Log{Progress: p, At: s.now}
}

// die is a worker that is killed: it leaves nothing but its log.
func (s *sim) die(exit corev1.ContainerStateTerminated) {
	exit.FinishedAt = metav1.Time{Time: s.now}
	s.world.Worker = s.world.Worker.DeepCopy()
	s.world.Worker.Status.Phase = corev1.PodFailed
	s.world.Worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Container, State: corev1.ContainerState{Terminated: &exit}}}
}

// told is the job of the worker that is there.
func (s *sim) told() job.Spec {
	spec, err := job.ParseSpec(s.world.Worker.Spec.Containers[0].Env[0].Value)
	if err != nil {
		panic(err)
	}
	return spec
}

func (s *sim) end(r job.Result) {
	s.world.Log = nil
	s.world.Worker = s.world.Worker.DeepCopy()
	s.world.Worker.Status.Phase = corev1.PodFailed
	if r.Outcome == job.Succeeded {
		s.world.Worker.Status.Phase = corev1.PodSucceeded
	}
	s.world.Worker.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  pod.Container,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(r.Encode()), FinishedAt: metav1.Time{Time: s.now}}},
	}}
}

// reap is the kubelet: a pod that is being deleted goes once its container has ended.
func (s *sim) reap() {
	if s.world.Worker != nil && s.world.Worker.DeletionTimestamp != nil {
		s.world.Worker, s.world.Log = nil, nil
	}
}

func statusLine(st cdiv1.DataVolumeStatus) string {
	phase := string(st.Phase)
	if phase == "" {
		phase = "(unset)"
	}
	line := fmt.Sprintf("%s %s restarts=%d", phase, st.Progress, st.RestartCount)
	for _, c := range st.Conditions {
		line += fmt.Sprintf("\n            %s=%s", c.Type, c.Status)
		if c.Reason != "" {
			line += fmt.Sprintf(" (%s)", c.Reason)
		}
		if c.Message != "" {
			line += ": " + c.Message
		}
	}
	return line
}

// What stories are about.

func dataVolume(change func(*cdiv1.DataVolume)) *cdiv1.DataVolume {
	dv := &cdiv1.DataVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "cdi.kubevirt.io/v1beta1", Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "dv-uid", Annotations: map[string]string{}},
		Spec: cdiv1.DataVolumeSpec{
			Source: &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{URL: "https://images.example/debian.qcow2"}},
			Storage: &cdiv1.StorageSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			}},
		},
	}
	if change != nil {
		change(dv)
	}
	return dv
}

func class(name string, mode storagev1.VolumeBindingMode) storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name, Annotations: map[string]string{cdi.DefaultClass: "true"}},
		Provisioner:       "csi.example",
		VolumeBindingMode: &mode,
	}
}

func deleteWorker(s *sim) action.Action { return action.Delete{Object: s.world.Worker} }
