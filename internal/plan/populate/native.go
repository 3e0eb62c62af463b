package populate

import (
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

func quantity(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// lookAgainSoon is how often snapshots are looked at, which a cluster need not serve, and which therefore aren't watched.
const lookAgainSoon = 2 * time.Second

// newSnapshot is the snapshot of the source that a disk is restored from. It goes with the DataVolume at the latest.
func newSnapshot(w World, plan clone.Plan) *unstructured.Unstructured {
	s := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"volumeSnapshotClassName": plan.VolumeSnapshotClass,
		"source":                  map[string]any{"persistentVolumeClaimName": plan.Source.Name},
	}}}
	s.SetGroupVersionKind(clone.SnapshotClass().GroupVersion().WithKind("VolumeSnapshot"))
	s.SetNamespace(w.DataVolume.Namespace)
	s.SetName(SnapshotName(w.DataVolume))
	s.SetOwnerReferences([]metav1.OwnerReference{ownerOf(w.DataVolume)})
	s.SetLabels(map[string]string{cdi.AppLabel: cdi.AppValue, cdi.ManagedByLabel: cdi.ManagedBy, cdi.ComponentLabel: cdi.ComponentStorage})
	return s
}

// SnapshotName is the name of the snapshot that a disk is restored from.
func SnapshotName(dv *cdiv1.DataVolume) string { return "clone-" + string(dv.UID) }

// dropSnapshot removes the snapshot that was made for the disk, once that is made, or made otherwise. Else it goes with the DataVolume.
func (f *flow) dropSnapshot() {
	if f.Clone == nil {
		return
	}
	if s := f.Clone.Snapshot; s != nil && s.DeletionTimestamp == nil {
		o := newSnapshot(f.World, f.Clone.Plan)
		o.SetUID(s.UID)
		f.do(action.Delete{Object: o})
	}
}

// abandoned: the driver's way has not been given up. Where it was, what it has left goes before the copy begins: the pod, then the claim.
func abandoned(f *flow) *verdict {
	if !f.native() || !f.clone.FellBack {
		return nil
	}
	if f.Worker != nil && f.Worker.DeletionTimestamp == nil {
		f.do(action.Delete{Object: f.Worker})
	}
	f.do(action.Delete{Object: f.Claim})
	last := f.clone.Trace[len(f.clone.Trace)-1]
	return &verdict{phase: cdiv1.ImportScheduled, bound: condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending,
		message: fmt.Sprintf("the claim is made again, and filled by a copy, since %s failed: %s", last.Strategy, last.Message)}}
}

// cloning: the driver can make the volume, as far as is known.
func cloning(f *flow) *verdict {
	if !f.native() {
		return nil
	}
	if why := f.failed(); why.Reason != "" {
		return f.fallBack(why)
	}
	return nil
}

// resized: the claim that the driver has made from the source has the size that was asked for.
func resized(f *flow) *verdict {
	if !f.native() || f.Claim.Status.Phase != corev1.ClaimBound || f.Worker != nil {
		return nil
	}
	asked, wanted := f.Claim.Spec.Resources.Requests[corev1.ResourceStorage], f.wantedBytes()
	v := &verdict{phase: cdiv1.ExpansionInProgress, bound: f.boundCondition(), again: refusedAgain}
	v.running = condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending, message: fmt.Sprintf("the clone grows from its source's size to %s", quantity(wanted))}
	if asked.Value() < wanted {
		f.do(action.Expand{Claim: f.Claim, Bytes: wanted})
		return v
	}
	has := f.Claim.Status.Capacity[corev1.ResourceStorage]
	if has.Value() >= asked.Value() || awaitsMount(f.Claim) {
		return nil
	}
	return v
}

// awaitsMount says whether the volume has grown, and its filesystem grows once a pod mounts it.
func awaitsMount(claim *corev1.PersistentVolumeClaim) bool {
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimNodeResizePending
}

// wantedBytes is what the claim of a clone asks for in the end.
func (f *flow) wantedBytes() int64 {
	asked := f.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	v, err := volume.Of(f.spec(), f.Cluster)
	if err != nil {
		return asked.Value() // it was possible when the claim was made
	}
	q := v.Claim.Resources.Requests[corev1.ResourceStorage]
	return max(q.Value(), asked.Value())
}

// newBinder is the pod that a cloned claim needs: it is the first consumer where the class waits for one, has the filesystem grow, makes the
// disk's file as long as the disk, and sees whether a device is as long. It reads no byte of the disk.
func newBinder(f *flow, m Memory) *corev1.Pod {
	target := job.Target{Kind: job.File, Path: path.Join(pod.VolumePath, cdi.DiskImage), SizeBytes: f.diskBytes()}
	if isBlock(f.Claim.Spec) {
		target.Kind, target.Path = job.Block, pod.DevicePath
	}
	return pod.Worker(pod.Request{
		DataVolume: f.DataVolume,
		Claim:      f.Claim,
		Owner:      ownerOf(f.DataVolume),
		Job:        job.Spec{Disk: f.DataVolume.Namespace + "/" + f.DataVolume.Name, Attempt: int(m.Attempts + 1), Grow: true, Target: target},
		Config:     f.Cluster.Config,
		Settings:   f.placement(),
	})
}

// diskBytes is how large the disk on a cloned claim can be: as large as was asked for, or before the claim has grown, as its source.
func (f *flow) diskBytes() int64 {
	asked := f.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if f.Clone != nil && asked.Value() < f.wantedBytes() {
		return min(f.Clone.Plan.SourceBytes, f.volume.DiskBytes)
	}
	return f.volume.DiskBytes
}

// whole says whether a worker that has succeeded leaves a whole disk: one of a clone may only have had the volume made, at the source's size.
func (f *flow) whole() bool {
	asked := f.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return !f.native() || asked.Value() >= f.wantedBytes() && specOf(f.Worker).Target.SizeBytes >= f.volume.DiskBytes
}

// specOf is what a worker was told.
func specOf(worker *corev1.Pod) job.Spec {
	for _, c := range worker.Spec.Containers {
		for _, e := range c.Env {
			if spec, err := job.ParseSpec(e.Value); e.Name == job.SpecEnv && err == nil {
				return spec
			}
		}
	}
	return job.Spec{}
}

// fallBack gives the driver's way up, once, for a copy. That is written down before anything is removed.
func (f *flow) fallBack(why v1alpha1.PassedOver) *verdict {
	s := f.clone
	s.Trace = append(s.Trace, why)
	s.Strategy, s.Reason, s.FellBack, s.Since = string(clone.HostAssisted), why.Reason, true, &metav1.Time{Time: f.now}
	s.Message = fmt.Sprintf("the bytes are copied, since %s failed: %s", why.Strategy, why.Message)
	f.clone = s
	f.tell()
	f.dropSnapshot()
	if f.Claim != nil {
		return abandoned(f)
	}
	return &verdict{phase: cdiv1.ImportScheduled, again: lookAgainSoon, bound: condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending, message: s.Message}}
}
