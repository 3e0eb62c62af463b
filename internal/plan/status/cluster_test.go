package status_test

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/disk"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/plan/status"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// cluster is one disk in memory, on which the real plans act: so the statuses that are told are those that the controllers write.
type cluster struct {
	disk   *v1alpha1.VMDisk
	world  populate.World
	now    time.Time
	events []corev1.Event
	// refuse is the API server's answer to the next creation.
	refuse string
}

var began = time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)

func vmdisk() *v1alpha1.VMDisk {
	return &v1alpha1.VMDisk{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "web-root", UID: "disk", Generation: 1, CreationTimestamp: metav1.Time{Time: began}},
		Spec: v1alpha1.VMDiskSpec{
			Storage: new(resource.MustParse("20Gi")), StorageClass: "replicated",
			Source: &v1alpha1.Source{HTTP: &v1alpha1.HTTPSource{URL: "https://user:word@images.example/debian.qcow2?X-Signature=secret"}},
		},
	}
}

func newCluster(mode storagev1.VolumeBindingMode) *cluster {
	profile := cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: "replicated"}}
	profile.Status.ClaimPropertySets = []cdiv1.ClaimPropertySet{{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, VolumeMode: new(corev1.PersistentVolumeBlock),
	}}
	class := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "replicated"}, Provisioner: "linstor.csi.linbit.com", VolumeBindingMode: &mode}
	return &cluster{
		disk: vmdisk(), now: began,
		world: populate.World{
			Cluster:  volume.Cluster{Classes: []storagev1.StorageClass{class}, Profiles: []cdiv1.StorageProfile{profile}},
			Settings: pod.Settings{Image: "vmdisk:test"},
		},
	}
}

// settle lets both controllers act until nothing changes.
func (c *cluster) settle() {
	for range 20 {
		made := c.pass()
		if !made {
			return
		}
	}
	panic("the controllers never come to rest")
}

// pass is one look of each controller; it says whether one of them has done something.
func (c *cluster) pass() (did bool) {
	w := disk.World{Disk: c.disk, DataVolume: c.world.DataVolume, Claim: c.world.Claim}
	d := disk.Plan(w, c.now)
	if refusal := c.carry(d.Actions); refusal != nil {
		w.Refusal = refusal
		d = disk.Plan(w, c.now)
	} else {
		did = len(d.Actions) > 0
	}
	c.disk.Status = d.Status
	if c.world.DataVolume == nil || !metav1.IsControlledBy(c.world.DataVolume, c.disk) {
		return did
	}
	c.world.Refusal = nil
	p := populate.Plan(c.world, c.now)
	if refusal := c.carry(p.Actions); refusal != nil {
		c.world.Refusal = refusal
		p = populate.Plan(c.world, c.now)
	} else {
		did = did || len(p.Actions) > 0
	}
	c.world.DataVolume.Status = p.Status
	w.DataVolume, w.Claim = c.world.DataVolume, c.world.Claim
	c.disk.Status = disk.Plan(w, c.now).Status
	return did
}

func (c *cluster) carry(actions []action.Action) *action.Refusal {
	for _, a := range actions {
		switch a := a.(type) {
		case action.Create:
			if c.refuse != "" {
				return &action.Refusal{Action: a, Text: c.refuse}
			}
			c.create(a.Object)
		case action.Annotate:
			annotations := maps.Clone(a.Object.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}
			maps.Copy(annotations, a.Annotations)
			a.Object.SetAnnotations(annotations)
		case action.Delete:
			a.Object.SetDeletionTimestamp(&metav1.Time{Time: c.now})
		}
	}
	return nil
}

func (c *cluster) create(o action.Object) {
	o.SetCreationTimestamp(metav1.Time{Time: c.now})
	switch o := o.(type) {
	case *cdiv1.DataVolume:
		o.UID = "dv"
		c.world.DataVolume = o
	case *corev1.PersistentVolumeClaim:
		o.UID, o.Status.Phase = "claim", corev1.ClaimPending
		c.world.Claim = o
	case *corev1.Pod:
		o.UID, o.Status.Phase = types.UID("worker-"+o.Labels[v1alpha1.AttemptLabel]), corev1.PodPending
		c.world.Worker = o
	}
}

// What the other components do.

func (c *cluster) later(d time.Duration) { c.now = c.now.Add(d) }

func (c *cluster) bind() {
	c.world.Claim.Status.Phase, c.world.Claim.Spec.VolumeName = corev1.ClaimBound, "pvc-1"
}

func (c *cluster) run(done, total int64) {
	w := c.world.Worker
	w.Spec.NodeName, w.Status.Phase = "node-a", corev1.PodRunning
	w.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Container, State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: c.now}},
	}}}
	c.world.Log = &populate.Log{Progress: job.Progress{DoneBytes: done, TotalBytes: total}, At: c.now}
}

// progress is what the worker's log tells, nil without one.
func (c *cluster) progress() *job.Progress {
	if c.world.Log == nil {
		return nil
	}
	return new(c.world.Log.Progress)
}

func (c *cluster) end(r job.Result) {
	c.world.Worker.Status.Phase = corev1.PodFailed
	c.world.Worker.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Container, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Message: string(r.Encode()), FinishedAt: metav1.Time{Time: c.now}},
	}}}
	c.world.Log = nil
}

func (c *cluster) reap() { c.world.Worker = nil }

func (c *cluster) warn(uid, kind, reason, message string) {
	e := corev1.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.Time{Time: c.now}, Count: 2,
		InvolvedObject: corev1.ObjectReference{Kind: kind, UID: types.UID(uid)}}
	c.events = append(c.events, e)
	c.world.Warnings = append(c.world.Warnings, e)
}

// seen is what a person with every right sees.
func (c *cluster) seen() status.Seen {
	return status.Seen{
		Namespace: "tenant-a", Name: "web-root", At: c.now, Disk: c.disk, DataVolume: c.world.DataVolume,
		Claim: c.world.Claim, Worker: c.world.Worker, Events: c.events, Progress: c.progress(),
	}
}
