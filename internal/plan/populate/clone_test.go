package populate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

// cloneSim is a simulation of a disk of 20Gi that is made from a claim of 10Gi.
func cloneSim(plan clone.Plan, class storagev1.StorageClass, change func(*cdiv1.DataVolume)) *sim {
	s := newSim(dataVolume(func(dv *cdiv1.DataVolume) {
		dv.Spec.Source = &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Namespace: "tenant-a", Name: "base"}}
		if change != nil {
			change(dv)
		}
	}), class)
	s.plan(plan)
	return s
}

// plan is what the planner says of the disk from now on.
func (s *sim) plan(plan clone.Plan) {
	source := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "base", UID: "base-uid"}}
	source.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	c := &Clone{Plan: plan, Source: source}
	if s.clone != nil {
		c.Snapshot = s.clone.Snapshot
	}
	c.Plan.Source = clone.OfDataVolume(*s.world.DataVolume, clone.Cluster{}).Source
	c.Plan.SourceBytes, c.Plan.ClaimBytes = 10<<30, 10<<30
	s.clone = c
}

func copies() clone.Plan {
	return clone.Plan{Strategy: clone.HostAssisted, Reason: clone.DriverMismatch, Message: "the bytes are copied: the drivers differ",
		Trace: []clone.PassedOver{{Strategy: clone.CSIClone, Reason: clone.DriverMismatch, Message: "the drivers differ"}}}
}

func clones(nodes ...string) clone.Plan {
	return clone.Plan{Strategy: clone.CSIClone, Reason: clone.SameDriver, Fallback: clone.HostAssisted, Message: "the driver clones the source's volume", Nodes: nodes,
		Placement: clone.Placement{Required: nodes}}
}

func restores() clone.Plan {
	return clone.Plan{Strategy: clone.Snapshot, Reason: clone.SameDriver, Fallback: clone.HostAssisted, Message: "the driver restores a snapshot of the source's volume", VolumeSnapshotClass: "fast"}
}

func waits(reason clone.Reason, message string) clone.Plan {
	return clone.Plan{Strategy: clone.Wait, Reason: reason, Message: message}
}

func (s *sim) makeSnapshot(o *unstructured.Unstructured) {
	if s.clone.Snapshot != nil {
		return
	}
	c := *s.clone
	c.Snapshot = &clone.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), UID: s.uid(), CreationTimestamp: metav1.Time{Time: s.now}}}
	s.clone, s.world.Clone = &c, &c
}

// deleteForClone deletes the claim, which stays for as long as the worker does, or the snapshot.
func (s *sim) deleteForClone(uid types.UID) {
	if s.world.Claim != nil && s.world.Claim.UID == uid && s.world.Claim.DeletionTimestamp == nil {
		s.world.Claim = s.world.Claim.DeepCopy()
		s.world.Claim.DeletionTimestamp = &metav1.Time{Time: s.now}
	}
	if s.clone != nil && s.clone.Snapshot != nil && s.clone.Snapshot.UID == uid {
		c := *s.clone
		c.Snapshot = nil
		s.clone, s.world.Clone = &c, &c
	}
}

func replanned(plan clone.Plan) func(*sim) { return func(s *sim) { s.plan(plan) } }

// ready is a snapshot that can be restored.
func ready(s *sim) {
	c, snapshot := *s.clone, *s.clone.Snapshot
	snapshot.Status.ReadyToUse, snapshot.Status.RestoreSize = true, resource.NewQuantity(10<<30, resource.BinarySI)
	c.Snapshot = &snapshot
	s.clone = &c
}

func snapshotFails(s *sim) {
	c, snapshot := *s.clone, *s.clone.Snapshot
	snapshot.Status.Error = &clone.SnapshotError{Message: "storage pool does not support snapshots"}
	c.Snapshot = &snapshot
	s.clone = &c
}

// bindsAs is a volume of a size.
func bindsAs(size string) func(*sim) {
	return func(s *sim) {
		s.bind()
		s.world.Claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
}

// complains is the provisioner that tells its driver's answer so many times.
func complains(message string, count int32) func(*sim) {
	return func(s *sim) {
		s.world.Warnings = []corev1.Event{{InvolvedObject: corev1.ObjectReference{UID: s.world.Claim.UID}, Type: corev1.EventTypeWarning,
			Reason: "ProvisioningFailed", Message: message, Count: count, LastTimestamp: metav1.Time{Time: s.now}}}
	}
}

func claimGoes(s *sim) { s.world.Claim = nil }

func infeasible(s *sim) {
	s.world.Claim = s.world.Claim.DeepCopy()
	s.world.Claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
}

func cloneStories() map[string]story {
	now := func(dv *cdiv1.DataVolume) { dv.Annotations[cdi.BindImmediate] = "" }
	asSource := func(dv *cdiv1.DataVolume) { dv.Spec.Storage.Resources.Requests = nil }
	copied := []line{{"the volume is made", binds}, {"the worker copies", half}, {"it succeeds", succeeds}, {"its pod goes", goes}}
	return map[string]story{
		"clone-by-copy": {
			func() *sim { return cloneSim(copies(), immediateClass, nil) },
			append([]line{{"created", created}}, copied...),
		},
		"clone-by-copy-for-its-consumer": {
			func() *sim { return cloneSim(copies(), waitingClass, nil) },
			append([]line{{"created", created}}, copied...),
		},
		"clone-waits-for-its-source": {
			func() *sim {
				return cloneSim(waits(clone.SourceNotFound, "PersistentVolumeClaim tenant-a/base does not exist: the disk is made once it does"), immediateClass, asSource)
			},
			append([]line{{"created", created}, {"the source is there", replanned(copies())}}, copied...),
		},
		"clone-whose-source-is-used-before-it-is-copied": {
			func() *sim { return cloneSim(copies(), immediateClass, nil) },
			[]line{
				{"created", created},
				{"somebody uses the source", replanned(waits(clone.SourceInUse, "the source may be written to by pod vm: the disk is made once that has ended"))},
				{"the volume is made", binds}, {"the source is free", replanned(copies())}, {"the worker copies", half}, {"it succeeds", succeeds}, {"its pod goes", goes},
			},
		},
		"clone-by-the-driver": {
			func() *sim { return cloneSim(clones(), immediateClass, nil) },
			[]line{
				{"created", created}, {"the driver has cloned", bindsAs("10Gi")}, {"the volume has grown", bindsAs("20Gi")},
				{"the pod looks", half}, {"it is as large as it should be", succeeds}, {"its pod goes", goes},
			},
		},
		"clone-by-the-driver-at-its-sources-size": {
			func() *sim { return cloneSim(clones(), immediateClass, asSource) },
			[]line{{"created", created}, {"the driver has cloned", bindsAs("10Gi")}, {"the pod looks", half}, {"it is as large as it should be", succeeds}, {"its pod goes", goes}},
		},
		"clone-by-the-driver-on-a-waiting-class": {
			func() *sim { return cloneSim(clones("node-a"), waitingClass, now) },
			[]line{
				{"created", created}, {"the pod is scheduled, the driver has cloned", bindsAs("10Gi")}, {"the pod looks", half}, {"it ends", succeeds}, {"it goes", goes},
				{"the volume has grown", bindsAs("20Gi")}, {"the second pod looks", half}, {"it is as large as it should be", succeeds}, {"its pod goes", goes},
			},
		},
		"clone-by-the-driver-for-its-consumer": {
			func() *sim { return cloneSim(clones(), waitingClass, nil) },
			[]line{
				{"created", created}, {"a consumer's pod is scheduled, the driver has cloned", bindsAs("10Gi")}, {"the volume has grown", bindsAs("20Gi")},
				{"the pod looks", half}, {"it is as large as it should be", succeeds}, {"its pod goes", goes},
			},
		},
		"clone-that-only-some-nodes-could-have": {
			func() *sim { return cloneSim(clones("node-a"), waitingClass, nil) },
			append([]line{{"created", created}}, copied...),
		},
		"clone-by-snapshot": {
			func() *sim { return cloneSim(restores(), immediateClass, asSource) },
			[]line{
				{"created", created}, {"the snapshot is ready", ready}, {"the driver has restored it", bindsAs("10Gi")}, {"the pod looks", half}, {"it is whole", succeeds}, {"its pod goes", goes},
			},
		},
		"clone-whose-snapshot-fails": {
			func() *sim { return cloneSim(restores(), immediateClass, nil) },
			append([]line{{"created", created}, {"the snapshot fails", snapshotFails}}, copied...),
		},
		"clone-whose-snapshot-is-never-ready": {
			func() *sim { return cloneSim(restores(), immediateClass, nil) },
			append([]line{{"created", created}, {"ten minutes later", later(10 * time.Minute)}}, copied...),
		},
		"clone-that-the-driver-refuses": {
			func() *sim { return cloneSim(clones(), immediateClass, nil) },
			append([]line{
				{"created", created}, {"the driver refuses", complains("CSI driver does not support clone operations: controller CLONE_VOLUME capability is not reported", 1)},
				{"the claim goes", claimGoes},
			}, copied...),
		},
		"clone-that-the-driver-fails-three-times": {
			func() *sim { return cloneSim(clones("node-a"), waitingClass, now) },
			append([]line{
				{"created", created}, {"the driver fails", complains("rpc error: code = Internal desc = no suitable pool", 1)}, {"again", complains("rpc error: code = Internal desc = no suitable pool", 2)},
				{"a third time", complains("rpc error: code = Internal desc = no suitable pool", 3)}, {"the pod goes", goes}, {"the claim goes", claimGoes},
			}, copied...),
		},
		"clone-that-the-driver-never-makes": {
			func() *sim { return cloneSim(clones(), immediateClass, nil) },
			append([]line{
				{"created", created}, {"the driver doesn't answer", complains("rpc error: code = DeadlineExceeded desc = context deadline exceeded", 9)},
				{"nine minutes later", later(9 * time.Minute)}, {"a minute later", later(time.Minute)}, {"the claim goes", claimGoes},
			}, copied...),
		},
		"clone-that-cannot-grow": {
			func() *sim { return cloneSim(clones(), immediateClass, nil) },
			append([]line{
				{"created", created}, {"the driver has cloned", bindsAs("10Gi")}, {"it can't grow", infeasible}, {"the claim goes", claimGoes},
			}, copied...),
		},
		"clone-whose-claim-is-deleted": {
			func() *sim { return cloneSim(clones(), immediateClass, asSource) },
			[]line{
				{"created", created}, {"the driver has cloned", bindsAs("10Gi")}, {"the pod looks", half}, {"it is whole", succeeds}, {"its pod goes", goes},
				{"somebody deletes the claim", claimGoes}, {"the driver has cloned again", bindsAs("10Gi")}, {"the pod looks", half}, {"it is whole", succeeds}, {"its pod goes", goes},
			},
		},
		"clone-in-another-namespace": {
			func() *sim {
				return cloneSim(copies(), immediateClass, func(dv *cdiv1.DataVolume) { dv.Spec.Source.PVC.Namespace = "cozy-public" })
			},
			[]line{{"created", created}},
		},
		"clone-smaller-than-its-source": {
			func() *sim {
				return cloneSim(clone.Plan{Strategy: clone.Reject, Reason: clone.TargetSmallerThanSource, Message: "the disk is to have 20Gi, and its source has 30Gi: ask for at least that"}, immediateClass, nil)
			},
			[]line{{"created", created}},
		},
	}
}

func TestACopyIsToldWhatToRead(t *testing.T) {
	s := cloneSim(copies(), immediateClass, nil)
	s.settle()
	s.bind()
	s.settle()
	want := job.Volume{Kind: job.Block, Path: "/dev/vmdisk-source", SizeBytes: 10 << 30}
	spec := s.told()
	if spec.Source.Volume == nil || *spec.Source.Volume != want || spec.Target.SizeBytes != 20<<30 {
		t.Errorf("%+v", spec)
	}
}

func TestARestoredVolumeIsAsLargeAsItsSnapshot(t *testing.T) {
	s := cloneSim(restores(), immediateClass, nil)
	s.settle()
	ready(s)
	s.clone.Snapshot.Status.RestoreSize = resource.NewQuantity(10<<30+4096, resource.BinarySI) // as drivers round
	s.settle()
	if got := s.world.Claim.Spec.Resources.Requests[corev1.ResourceStorage]; got.Value() != 10<<30+4096 {
		t.Errorf("the claim asks for %s", got.String())
	}
}
