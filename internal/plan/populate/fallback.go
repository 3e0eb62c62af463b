package populate

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

// Deadlines are how long the steps of a driver's clone may take, before a copy takes its place. They count from times that objects bear, so
// that a restart changes nothing. Waiting for a source, for a quota or for the disk's own consumer is none of them. A zero field means its default.
type Deadlines struct {
	// Provision is for the volume. A large one has twice the time that a copy at 100 MiB/s takes, if that is longer.
	Provision time.Duration
	// Snapshot is for a snapshot until it is ready.
	Snapshot time.Duration
	// Schedule is for the pod that binds the volume.
	Schedule time.Duration
	// Resize is for the volume's growth.
	Resize time.Duration
}

// WithDefaults is d with every zero field replaced by its default.
func (d Deadlines) WithDefaults() Deadlines {
	return Deadlines{
		Provision: cmp.Or(d.Provision, 10*time.Minute),
		Snapshot:  cmp.Or(d.Snapshot, 10*time.Minute),
		Schedule:  cmp.Or(d.Schedule, 3*time.Minute),
		Resize:    cmp.Or(d.Resize, 5*time.Minute),
	}
}

// copyRate is what a driver that copies is given as its speed, in bytes a second, halved.
const copyRate = 50 << 20

// The reasons for which a driver's clone is given up.
const (
	driverCannotClone   = "DriverCannotClone"
	driverRejectedClone = "DriverRejectedClone"
	provisionDeadline   = "ProvisionDeadlineExceeded"
	snapshotFailed      = "SnapshotFailed"
	snapshotDeadline    = "SnapshotDeadlineExceeded"
	binderUnschedulable = "BinderUnschedulable"
	expansionFailed     = "ExpansionFailed"
	expansionDeadline   = "ExpansionDeadlineExceeded"
)

// equalErrors is how often a driver may answer the same before it is believed. provisioningFailed is the provisioner's reason for telling its answer.
const (
	equalErrors        = 3
	provisioningFailed = "ProvisioningFailed"
)

// failed says why the driver's clone won't come to an end; the zero PassedOver while it may.
func (f *flow) failed() v1alpha1.PassedOver {
	if f.Claim.Status.Phase == corev1.ClaimBound {
		return f.growthFailed()
	}
	if w, ok := lastWarning(f.Warnings, string(f.Claim.UID)); ok && w.Reason == provisioningFailed {
		if reason := driversNo(w); reason != "" {
			return f.passed(reason, f.driver()+" answered: "+w.Message)
		}
	}
	if f.Worker != nil && unschedulable(f.Worker) != "" && f.age(f.Worker.CreationTimestamp.Time) >= f.deadlines().Schedule {
		return f.passed(binderUnschedulable, fmt.Sprintf("for %s no node could take the pod that binds it: %s", f.deadlines().Schedule, unschedulable(f.Worker)))
	}
	since, begun := f.provisioning()
	if limit := f.provisionLimit(); begun && f.age(since) >= limit {
		return f.passed(provisionDeadline, fmt.Sprintf("%s had not made the volume after %s%s", f.driver(), limit, f.lastComplaint()))
	}
	return v1alpha1.PassedOver{}
}

// provisioning is since when the driver has been asked for the volume; false while it wasn't.
func (f *flow) provisioning() (time.Time, bool) {
	switch {
	case !f.volume.WaitsForConsumer():
		return f.Claim.CreationTimestamp.Time, true
	case f.Worker != nil && f.Claim.Annotations[selectedNode] != "":
		return f.Worker.CreationTimestamp.Time, true
	default:
		return time.Time{}, false // nobody knows since when its consumer is there
	}
}

func (f *flow) provisionLimit() time.Duration {
	asked := f.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return max(f.deadlines().Provision, time.Duration(asked.Value()/copyRate)*time.Second)
}

// driversNo is what a driver's error means that it won't take back; empty: it may come to something else.
func driversNo(w corev1.Event) string {
	text := w.Message
	switch {
	case strings.Contains(text, "does not support"), strings.Contains(text, "CLONE_VOLUME"):
		return driverCannotClone
	case strings.Contains(text, "claim in dataSource not bound or invalid"), strings.Contains(text, "code = InvalidArgument"):
		return driverRejectedClone
	case strings.Contains(text, "code = Internal"), strings.Contains(text, "code = FailedPrecondition"), strings.Contains(text, "code = OutOfRange"), strings.Contains(text, "code = ResourceExhausted"):
		if times(w) >= equalErrors {
			return driverRejectedClone
		}
	}
	return ""
}

// times is how often an event was seen.
func times(w corev1.Event) int32 {
	if w.Series != nil {
		return w.Series.Count
	}
	return max(w.Count, 1)
}

// growthFailed says why the clone won't get the size that was asked for.
func (f *flow) growthFailed() v1alpha1.PassedOver {
	status := f.Claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	if status == corev1.PersistentVolumeClaimControllerResizeInfeasible || status == corev1.PersistentVolumeClaimNodeResizeInfeasible {
		return f.passed(expansionFailed, fmt.Sprintf("%s can't give the volume the size of %s%s", f.driver(), quantity(f.wantedBytes()), f.lastComplaint()))
	}
	for _, c := range f.Claim.Status.Conditions {
		resizing := c.Type == corev1.PersistentVolumeClaimResizing && c.Status == corev1.ConditionTrue
		if resizing && !c.LastTransitionTime.IsZero() && f.age(c.LastTransitionTime.Time) >= f.deadlines().Resize {
			return f.passed(expansionDeadline, fmt.Sprintf("%s had not given the volume its size after %s%s", f.driver(), f.deadlines().Resize, f.lastComplaint()))
		}
	}
	return v1alpha1.PassedOver{}
}

// snapshotFailed says why a snapshot won't be ready.
func (f *flow) snapshotFailed(s clone.VolumeSnapshot) v1alpha1.PassedOver {
	limit := f.deadlines().Snapshot
	switch {
	case s.Status.Error != nil && s.Status.Error.Message != "":
		return f.passed(snapshotFailed, "the snapshot failed: "+s.Status.Error.Message)
	case f.age(s.CreationTimestamp.Time) >= limit:
		return f.passed(snapshotDeadline, fmt.Sprintf("the snapshot was not ready after %s", limit))
	}
	return v1alpha1.PassedOver{}
}

func (f *flow) passed(reason, message string) v1alpha1.PassedOver {
	return v1alpha1.PassedOver{Strategy: f.clone.Strategy, Reason: reason, Message: message}
}

// lastComplaint is the driver's last word about the claim, to be put behind a sentence.
func (f *flow) lastComplaint() string {
	if w, ok := lastWarning(f.Warnings, string(f.Claim.UID)); ok {
		return "; its last word was: " + w.Message
	}
	return ""
}

func (f *flow) driver() string {
	if f.volume.Class != nil {
		return f.volume.Class.Provisioner
	}
	return "the storage driver"
}

func (f *flow) age(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return f.now.Sub(since)
}

func (f *flow) deadlines() Deadlines { return f.Deadlines.WithDefaults() }

// unschedulable is the scheduler's sentence about a pod; empty: there is none.
func unschedulable(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}
