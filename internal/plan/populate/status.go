package populate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// condition is a condition without its times.
type condition struct {
	status          corev1.ConditionStatus
	reason, message string
}

// decision completes a verdict: the whole status, and the events that tell what has changed.
func (f *flow) decision(v verdict) action.Decision[cdiv1.DataVolumeStatus] {
	old := f.DataVolume.Status
	status := cdiv1.DataVolumeStatus{
		Phase:        f.phase(v.phase),
		Progress:     cdiv1.DataVolumeProgress(v.progress),
		RestartCount: f.memory.Attempts,
	}
	if status.Progress == "" {
		status.Progress = "N/A"
	}
	if f.Claim != nil {
		status.ClaimName = f.Claim.Name
	}
	for _, c := range []struct {
		kind cdiv1.DataVolumeConditionType
		condition
	}{{cdiv1.DataVolumeBound, v.bound}, {cdiv1.DataVolumeReady, f.readyCondition(v)}, {cdiv1.DataVolumeRunning, v.running}} {
		status.Conditions = append(status.Conditions, f.timed(c.kind, c.condition))
	}
	return action.Decision[cdiv1.DataVolumeStatus]{
		Actions: f.actions,
		Status:  status,
		Events:  slices.Concat(changes(f.DataVolume, old, status), f.way(), f.failure(old, status), f.beginning(old, status)),
		Again:   v.again,
	}
}

// readyCondition is True exactly when the disk is.
func (f *flow) readyCondition(v verdict) condition {
	if v.phase == cdiv1.Succeeded {
		return condition{status: corev1.ConditionTrue}
	}
	c := condition{status: corev1.ConditionFalse, reason: v.ready}
	switch v.ready {
	case "":
	case v.bound.reason:
		c.message = v.bound.message
	case v.running.reason:
		c.message = v.running.message
	}
	return c
}

// boundCondition is the claim's own state.
func (f *flow) boundCondition() condition {
	if f.Claim.Status.Phase == corev1.ClaimBound {
		return condition{corev1.ConditionTrue, cdi.ReasonBound, fmt.Sprintf("PVC %s Bound", f.Claim.Name)}
	}
	return f.pending()
}

// noProvisioner is the provisioner of classes whose volumes are made by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

// pending is the state of a claim that isn't bound: the last complaint about it, or else whom it waits for.
func (f *flow) pending() condition {
	c := condition{corev1.ConditionFalse, cdi.ReasonPending, fmt.Sprintf("PVC %s Pending", f.DataVolume.Name)}
	if f.Claim != nil {
		if w, ok := lastWarning(f.Warnings, string(f.Claim.UID)); ok {
			c.reason = w.Reason
			c.message += ": " + cause.Complaint(w.Reason, w.Message)
			return c
		}
	}
	switch class := f.volume.Class; {
	case class == nil:
		c.message += ": it has no StorageClass that could make its volume, so it waits for a PersistentVolume that somebody makes for it"
	case class.Provisioner == noProvisioner:
		c.message += fmt.Sprintf(": StorageClass %s makes no volumes, so it waits for a PersistentVolume of that class that somebody makes: at least %s, %s, %v",
			class.Name, f.volume.Claim.Resources.Requests.Storage(), volume.Mode(f.volume.Claim.VolumeMode), f.volume.Claim.AccessModes)
	default:
		c.message += fmt.Sprintf(": %s has not made its volume yet", class.Provisioner)
	}
	return c
}

// timed puts times to a condition: a transition is a change of status, a heartbeat is any change.
func (f *flow) timed(kind cdiv1.DataVolumeConditionType, c condition) cdiv1.DataVolumeCondition {
	if c.status == "" {
		c.status = corev1.ConditionFalse
	}
	now := metav1.Time{Time: f.now}
	timed := cdiv1.DataVolumeCondition{Type: kind, Status: c.status, Reason: c.reason, Message: c.message, LastTransitionTime: now, LastHeartbeatTime: now}
	old, ok := find(f.DataVolume.Status.Conditions, kind)
	if ok && old.Status == timed.Status {
		timed.LastTransitionTime = old.LastTransitionTime
		if old.Reason == timed.Reason && old.Message == timed.Message {
			timed.LastHeartbeatTime = old.LastHeartbeatTime
		}
	}
	return timed
}

func find(conditions []cdiv1.DataVolumeCondition, kind cdiv1.DataVolumeConditionType) (cdiv1.DataVolumeCondition, bool) {
	i := slices.IndexFunc(conditions, func(c cdiv1.DataVolumeCondition) bool { return c.Type == kind })
	if i < 0 {
		return cdiv1.DataVolumeCondition{}, false
	}
	return conditions[i], true
}

// progress is the running worker's. A log that can't be read for once takes nothing back.
func (f *flow) progress() string {
	if f.Log == nil {
		if c, ok := find(f.DataVolume.Status.Conditions, cdiv1.DataVolumeRunning); ok && c.Status == corev1.ConditionTrue {
			return string(f.DataVolume.Status.Progress)
		}
		return "N/A"
	}
	done, ok := f.Log.Progress.Percent()
	if !ok {
		return "N/A"
	}
	// 100 is for a disk whose bytes are safe, which only the worker's end tells.
	return fmt.Sprintf("%.2f%%", min(done, 99.99))
}

// runningReason is the reason of the Running condition after an attempt that ended with a fault.
func runningReason(m Memory) string {
	switch {
	case m.Outcome == job.Refused && m.Reason == "ChecksumMismatch":
		return cdi.ReasonChecksumError
	case m.Outcome == job.Interrupted:
		return cdi.ReasonPending
	case m.Outcome == "":
		return ""
	default:
		return cdi.ReasonError
	}
}
