package disk

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// sim is a cluster of one filled disk in memory. It does what actions say, plays driver, kubelet and people when a story tells it to, and
// writes down what a user would see.
type sim struct {
	world   World
	now     time.Time
	refuse  string // the API server's words to the next growth of a claim
	crashAt int    // the number of the action after which the controller dies once; 0: never
	acted   int
	workers int
	log     strings.Builder
}

// newSim has a disk of 20Gi with its bytes, in a class that lets volumes grow.
func newSim(mode corev1.PersistentVolumeMode) *sim {
	d := vmdisk(nil)
	dv := made(d, cdiv1.Succeeded)
	dv.UID = "dv-uid"
	request := resource.MustParse("20Gi")
	cluster := volume.Cluster{Classes: []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, AllowVolumeExpansion: new(true)}}}
	request.Set(volume.RequestFor(corev1.PersistentVolumeClaimSpec{VolumeMode: &mode}, request.Value(), cluster))
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "claim-uid", Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(dv, cdiv1.SchemeGroupVersion.WithKind("DataVolume"))}},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: &mode, StorageClassName: new("usual"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: request}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: request}},
	}
	return &sim{
		world: World{Disk: d, DataVolume: dv, Claim: claim, Growth: Growth{Cluster: cluster, Settings: pod.Settings{Image: "vmdisk:test"}}},
		now:   time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC),
	}
}

func (s *sim) printf(format string, args ...any) { fmt.Fprintf(&s.log, format+"\n", args...) }

// snapshot is the world as text, to see whether anything has changed.
func (s *sim) snapshot() string {
	b, err := json.Marshal([]any{s.world.Disk, s.world.DataVolume, s.world.Claim, s.world.Growth.Worker})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// settle reconciles until nothing changes any more.
func (s *sim) settle() {
	for range 20 {
		before := s.snapshot()
		if died := s.reconcile(); s.snapshot() == before && !died {
			return
		}
	}
	panic("the controller never comes to rest")
}

// reconcile is one pass, and says whether the controller died in it.
func (s *sim) reconcile() bool {
	s.world.Refusal = nil
	d := Plan(s.world, s.now)
	for _, a := range d.Actions {
		if _, expands := a.(action.Expand); expands && s.refuse != "" {
			s.printf("  refused %s", a)
			s.world.Refusal = &action.Refusal{Action: a, Text: s.refuse}
			d = Plan(s.world, s.now)
			break
		}
		s.do(a)
		if s.acted++; s.acted == s.crashAt {
			return true
		}
	}
	for _, e := range d.Events {
		s.printf("  event   %s %s: %s", e.Type, e.Reason, e.Message)
	}
	before := statusLine(s.world.Disk)
	s.world.Disk = s.world.Disk.DeepCopy()
	s.world.Disk.Status = d.Status
	if line := statusLine(s.world.Disk); line != before {
		s.printf("  status  %s", line)
	}
	return false
}

func (s *sim) do(a action.Action) {
	s.printf("  act     %s", a)
	claim := s.world.Claim.DeepCopy()
	switch a := a.(type) {
	case action.Create:
		if s.world.Growth.Worker == nil {
			s.workers++
			s.world.Growth.Worker = a.Object.DeepCopyObject().(*corev1.Pod)
			s.world.Growth.Worker.Status.Phase = corev1.PodPending
		}
	case action.Delete: // no node holds a worker that has ended or never began
		s.world.Growth.Worker = nil
	case action.Annotate:
		maps.Copy(claim.Annotations, a.Annotations)
		s.world.Claim = claim
	case action.Expand:
		maps.Copy(claim.Annotations, a.Annotations)
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(a.Bytes, resource.BinarySI)
		s.world.Claim = claim
	default:
		panic(fmt.Sprintf("a disk that grows needs no %T", a))
	}
}

// What others do.

func (s *sim) wants(size string) {
	s.world.Disk = s.world.Disk.DeepCopy()
	s.world.Disk.Spec.Storage = new(resource.MustParse(size))
	s.world.Disk.Generation++
}

// enlarge is the driver's part; on a filesystem the node's part is left to do.
func (s *sim) enlarge() {
	s.world.Claim = s.world.Claim.DeepCopy()
	s.world.Claim.Status.AllocatedResources = s.world.Claim.Spec.Resources.Requests.DeepCopy()
	if s.world.onFilesystem() {
		s.world.Claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
		return
	}
	s.notice()
}

// notice is the node's part.
func (s *sim) notice() {
	s.world.Claim = s.world.Claim.DeepCopy()
	s.world.Claim.Status.Conditions = nil
	s.world.Claim.Status.Capacity = s.world.Claim.Spec.Resources.Requests.DeepCopy()
}

func (s *sim) end(r job.Result) {
	s.world.Growth.Worker = s.world.Growth.Worker.DeepCopy()
	status := &s.world.Growth.Worker.Status
	status.Phase = corev1.PodFailed
	if r.Outcome == job.Succeeded {
		status.Phase = corev1.PodSucceeded
	}
	status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Container, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: string(r.Encode()), FinishedAt: metav1.Time{Time: s.now}}}}}
}

func (s *sim) uses(pods ...string) { s.world.Growth.Users = pods }

// statusLine is what a user sees of a disk's size.
func statusLine(d *v1alpha1.VMDisk) string {
	line := d.Status.Size
	for _, c := range d.Status.Conditions {
		line += fmt.Sprintf("\n            %s=%s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return line
}
