package disk

import (
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/populate"
	"vmdisk.io/vmdisk/internal/pod"
)

// lengthened: a worker has made the file longer, or the disk is a device.
func lengthened(w World, now time.Time) *growing {
	if !w.onFilesystem() {
		return nil
	}
	worker := w.Growth.Worker
	g := &growing{resizing: resizing(FileResizing, "a worker makes %s on claim %s larger, to %s", cdi.DiskImage, w.Claim.Name, w.Disk.Spec.Storage)}
	if worker == nil {
		if w.Refusal != nil {
			g.again = refusedAgain
			g.resizing = resizing(ResizeFailed, "%s", cause.OfRefusal("the worker that makes the disk larger", w.Refusal.Text).Sentence)
			return g
		}
		g.actions = []action.Action{action.Create{Object: w.grower()}}
		return g
	}
	result, ended, over := populate.EndOf(worker, now)
	switch {
	case over && result.Outcome == job.Succeeded && grownTo(worker) == w.sizeBytes():
		return nil
	case worker.DeletionTimestamp != nil:
		return g
	case over && result.Outcome == job.Succeeded: // it has served an earlier wish
		g.actions = w.endWorker()
	case over:
		g.resizing = resizing(ResizeFailed, "%s: %s (the next try is at %s)", cdi.DiskImage, result.Message, ended.Add(failedAgain).UTC().Format("15:04:05 MST"))
		if g.again = ended.Add(failedAgain).Sub(now); g.again <= 0 {
			g.again, g.actions = 0, w.endWorker()
		}
	default:
		if why := populate.Hindrance(worker, w.Growth.Warnings); why != "" && worker.Status.Phase == corev1.PodPending {
			g.resizing = resizing(ResizeFailed, "the worker that makes the disk larger does not start: %s", why)
		}
		g.again = lookAgain // somebody may come who needs the volume
	}
	return g
}

// endWorker deletes the worker, if there is one that is not going already.
func (w World) endWorker() []action.Action {
	if worker := w.Growth.Worker; worker != nil && worker.DeletionTimestamp == nil {
		return []action.Action{action.Delete{Object: worker}}
	}
	return nil
}

// sectorBytes is the grain of a disk.
const sectorBytes = 512

// sizeBytes is the length of the file for the size that is asked for.
func (w World) sizeBytes() int64 {
	return (w.Disk.Spec.Storage.Value() + sectorBytes - 1) / sectorBytes * sectorBytes
}

// grower is the worker that makes the file longer.
func (w World) grower() *corev1.Pod {
	return pod.Worker(pod.Request{
		Name:       pod.GrowerName(w.Claim.UID),
		DataVolume: w.DataVolume,
		Claim:      w.Claim,
		Owner:      *metav1.NewControllerRef(w.Disk, v1alpha1.GroupVersion.WithKind("VMDisk")),
		Job: job.Spec{
			Disk: w.Disk.Namespace + "/" + w.Disk.Name, Attempt: 1, Grow: true,
			Target: job.Target{
				Kind: job.File, Path: path.Join(pod.VolumePath, cdi.DiskImage), SizeBytes: w.sizeBytes(),
				Preallocate: w.Claim.Annotations[cdi.Preallocation] == "true",
			},
		},
		Config:   w.Growth.Cluster.Config,
		Settings: w.Growth.Settings.PlacedBy(w.Disk.Spec.Placement),
	})
}

// grownTo is the length of the file that a worker was told.
func grownTo(worker *corev1.Pod) int64 {
	for _, c := range worker.Spec.Containers {
		for _, e := range c.Env {
			if spec, err := job.ParseSpec(e.Value); e.Name == job.SpecEnv && err == nil {
				return spec.Target.SizeBytes
			}
		}
	}
	return 0
}

// UsersOf are the names of the pods that use a claim, without the workers that make its disk larger. A pod that has ended uses nothing.
func UsersOf(claim *corev1.PersistentVolumeClaim, pods []corev1.Pod) []string {
	var users []string
	for _, p := range pods {
		over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if over || p.Name == pod.GrowerName(claim.UID) {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name {
				users = append(users, "pod "+p.Name)
			}
		}
	}
	return users
}
