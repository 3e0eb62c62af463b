package disk

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// Growth is what was seen of a disk that may have to grow. A disk is its claim and, on a filesystem, the file on it: first the claim asks for
// more, then the driver makes the volume larger, then a worker makes the file longer. None of that touches the DataVolume, whose spec is
// immutable in CDI's API, so it is the same whoever serves that.
type Growth struct {
	Cluster volume.Cluster
	// Settings are the installation's settings for workers.
	Settings pod.Settings
	// Worker makes the claim's disk.img longer.
	Worker *corev1.Pod
	// Warnings are those about the claim and the worker, the newest last.
	Warnings []corev1.Event
	// Users are the names of the other pods that use the claim. They are looked for only where FileGrows says so.
	Users []string
}

// Reasons of Resizing.
const (
	// Resized: the disk has the size that its spec asks for.
	Resized = "Resized"
	// WaitingForDisk: a disk is filled before it grows.
	WaitingForDisk = "WaitingForDisk"
	// VolumeResizing: the storage driver makes the volume larger.
	VolumeResizing = "VolumeResizing"
	// FileSystemResizePending: the volume is larger, and a node has to notice.
	FileSystemResizePending = "FileSystemResizePending"
	// DiskInUse: the file is not touched while a pod uses it.
	DiskInUse = "DiskInUse"
	// FileResizing: a worker makes the file longer.
	FileResizing = "FileResizing"
	// ResizeFailed: it could not; it tries again.
	ResizeFailed = "ResizeFailed"
)

const (
	// lookAgain is how often a disk that waits for its users' end or its driver is looked at: of pods only workers' are watched, and some
	// resizers tell of trouble in events only.
	lookAgain = 15 * time.Second
	// failedAgain is the time between two workers that make a file longer.
	failedAgain = time.Minute
)

// growing is what a step says: what follows, and what is told. A step that says nothing has nothing against the next one.
type growing struct {
	ready, resizing *metav1.Condition
	actions         []action.Action
	again           time.Duration
}

// growth decides what the disk needs to have the size that its spec asks for.
func (w World) growth(now time.Time) growing {
	claim := w.claim()
	if claim == nil || claim.DeletionTimestamp != nil || w.Disk.Spec.Storage == nil {
		return growing{actions: w.endWorker()}
	}
	if !w.Grows() {
		g := growing{actions: w.endWorker()}
		if _, grown := claim.Annotations[v1alpha1.DiskSizeAnnotation]; grown {
			g.resizing = resizing(Resized, "the disk has %s", w.have())
			g.resizing.Status = metav1.ConditionFalse
		}
		return g
	}
	for _, step := range []func(World, time.Time) *growing{filled, asked, enlarged, noticed, unused, lengthened} {
		if g := step(w, now); g != nil {
			return *g
		}
	}
	return w.done()
}

// done notes that the disk has the size that was asked for.
func (w World) done() growing {
	if w.Refusal != nil {
		return growing{again: refusedAgain, resizing: resizing(ResizeFailed, "%s", cause.OfRefusal("to note the disk's size on claim "+w.Claim.Name, w.Refusal.Text).Sentence)}
	}
	g := growing{resizing: resizing(Resized, "the disk has %s", w.Disk.Spec.Storage)}
	g.resizing.Status = metav1.ConditionFalse
	g.actions = []action.Action{action.Annotate{Object: w.Claim, Annotations: map[string]string{v1alpha1.DiskSizeAnnotation: w.Disk.Spec.Storage.String()}}}
	return g
}

// resizing is a Resizing condition that is True.
func resizing(reason, format string, args ...any) *metav1.Condition {
	return &metav1.Condition{Type: v1alpha1.ConditionResizing, Status: metav1.ConditionTrue, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// claim is the disk's own one; nil while there is none.
func (w World) claim() *corev1.PersistentVolumeClaim {
	if w.DataVolume == nil || !w.owned() || w.Claim == nil || !metav1.IsControlledBy(w.Claim, w.DataVolume) {
		return nil
	}
	return w.Claim
}

// have is the size that the disk has: the one that it was made with, until it has grown; nil while there is no disk. A claim that was restored
// from an earlier disk may be smaller than what is asked for now.
func (w World) have() *resource.Quantity {
	made, claim := w.made(), w.claim()
	if made == nil || claim == nil {
		return made
	}
	if q, err := resource.ParseQuantity(claim.Annotations[v1alpha1.DiskSizeAnnotation]); err == nil {
		return &q
	}
	if asks := claim.Spec.Resources.Requests.Storage(); asks.Cmp(*made) < 0 {
		return asks
	}
	return made
}

// request is what the claim must ask for, in bytes.
func (w World) request() int64 {
	return volume.RequestFor(w.Claim.Spec, w.Disk.Spec.Storage.Value(), w.Growth.Cluster)
}

func (w World) onFilesystem() bool {
	mode := w.Claim.Spec.VolumeMode
	return mode == nil || *mode == corev1.PersistentVolumeFilesystem
}

// filled: the disk has its bytes. Only then its claim may change, and nobody else writes to it.
func filled(w World, _ time.Time) *growing {
	if w.DataVolume.Status.Phase == cdiv1.Succeeded && w.Claim.Status.Phase == corev1.ClaimBound {
		return nil
	}
	return &growing{resizing: resizing(WaitingForDisk, "the disk grows from %s to %s once DataVolume %s is Succeeded", w.have(), w.Disk.Spec.Storage, w.DataVolume.Name)}
}

// asked: the claim asks for as much as the disk needs. What the disk has is noted with the same change, so that the growth is known to be
// unfinished from then on.
func asked(w World, _ time.Time) *growing {
	claim, request := w.Claim, w.request()
	if claim.Spec.Resources.Requests.Storage().CmpInt64(request) >= 0 {
		return nil
	}
	refuse := func(reason, message string) *growing {
		return &growing{again: refusedAgain, ready: &metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
			Message: fmt.Sprintf("the disk stays at %s: %s", w.have(), message),
		}}
	}
	class := w.Growth.Cluster.ClassOf(claim.Spec)
	switch {
	case class == nil:
		return refuse(ClassCannotGrow, fmt.Sprintf("claim %s has no StorageClass that could make its volume larger: copy the disk into a class that can", claim.Name))
	case class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion:
		return refuse(ClassCannotGrow, fmt.Sprintf("StorageClass %s does not let volumes grow: ask the administrator to set allowVolumeExpansion there, if its driver can, or copy the disk into a class that has it", class.Name))
	case w.Refusal != nil:
		return refuse(GrowthRefused, cause.OfRefusal("the growth of claim "+claim.Name, w.Refusal.Text).Sentence)
	}
	return &growing{
		actions:  []action.Action{action.Expand{Claim: claim, Bytes: request, Annotations: map[string]string{v1alpha1.DiskSizeAnnotation: w.have().String()}}},
		resizing: w.volumeResizing(),
	}
}

// volumeResizing is the time from the claim's asking for more until the driver has made the volume larger.
func (w World) volumeResizing() *metav1.Condition {
	return resizing(VolumeResizing, "the storage driver makes the volume of claim %s larger, so that the disk can grow from %s to %s", w.Claim.Name, w.have(), w.Disk.Spec.Storage)
}

// enlarged: the driver has made the volume larger, as far as it can without a node.
func enlarged(w World, _ time.Time) *growing {
	if w.Claim.Status.Capacity.Storage().CmpInt64(w.request()) >= 0 || w.nodesTurn() {
		return nil
	}
	if trouble := w.driverSays(corev1.PersistentVolumeClaimControllerResizeError, "VolumeResizeFailed"); trouble != "" {
		return &growing{again: lookAgain, resizing: resizing(ResizeFailed, "the storage driver could not make the volume larger: %s", trouble)}
	}
	return &growing{again: lookAgain, resizing: w.volumeResizing()}
}

// nodesTurn says whether the volume is larger, and the node that uses it has to do the rest. A node may still owe an earlier growth.
func (w World) nodesTurn() bool {
	if allocated, ok := w.Claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.CmpInt64(w.request()) < 0 {
		return false
	}
	for _, c := range w.Claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	switch w.Claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return true
	}
	return false
}

// driverSays is what the driver has against the growth: in the claim's condition, or in an event's words.
func (w World) driverSays(kind corev1.PersistentVolumeClaimConditionType, reason string) string {
	for _, c := range w.Claim.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return cause.Complaint(reason, c.Message)
		}
	}
	for _, e := range w.Growth.Warnings {
		if e.InvolvedObject.UID == w.Claim.UID && e.Reason == reason {
			return cause.Complaint(reason, e.Message)
		}
	}
	return ""
}

// noticed: the node has seen that the volume is larger. For a filesystem that nobody uses the worker's node sees it when it mounts the volume
// for the worker; a device that nobody uses needs no worker.
func noticed(w World, _ time.Time) *growing {
	if !w.nodesTurn() || w.onFilesystem() && len(w.Growth.Users) == 0 {
		return nil
	}
	g := &growing{again: lookAgain, actions: w.makeWay(), resizing: resizing(FileSystemResizePending,
		"the volume of claim %s is larger; the node that uses it has to follow, at the latest when a pod or virtual machine uses it next", w.Claim.Name)}
	if trouble := w.driverSays(corev1.PersistentVolumeClaimNodeResizeError, "FileSystemResizeFailed"); trouble != "" {
		g.resizing = resizing(ResizeFailed, "the volume is larger, and the node could not follow: %s", trouble)
	}
	return g
}

// unused: no pod uses the file, or the disk is a device.
func unused(w World, _ time.Time) *growing {
	if !w.onFilesystem() || len(w.Growth.Users) == 0 {
		return nil
	}
	return &growing{again: lookAgain, actions: w.makeWay(), resizing: resizing(DiskInUse,
		"the volume is larger; %s is not touched while %s uses it: KubeVirt makes it larger where its feature gate ExpandDisks is on, else vmdisk does once no pod uses it",
		cdi.DiskImage, strings.Join(w.Growth.Users, ", "))}
}

// makeWay ends a worker that does not run yet, for whoever came meanwhile. One that runs is done in a moment.
func (w World) makeWay() []action.Action {
	if worker := w.Growth.Worker; worker == nil || worker.Status.Phase != corev1.PodPending {
		return nil
	}
	return w.endWorker()
}

// Grows says whether the disk is smaller than what is asked for.
func (w World) Grows() bool {
	return w.claim() != nil && w.Disk.Spec.Storage != nil && w.have().Cmp(*w.Disk.Spec.Storage) < 0
}

// FileGrows says whether a file is to be made longer now, so that it matters who uses it.
func (w World) FileGrows() bool {
	return w.Grows() && w.onFilesystem() && w.Claim.Spec.Resources.Requests.Storage().CmpInt64(w.request()) >= 0
}

// growthRefused says whether what the API server refused was a step of growing.
func (w World) growthRefused() bool {
	switch a := w.Refusal.Action.(type) {
	case action.Expand:
		return true
	case action.Create:
		_, worker := a.Object.(*corev1.Pod)
		return worker
	case action.Annotate:
		_, claim := a.Object.(*corev1.PersistentVolumeClaim)
		return claim
	}
	return false
}
