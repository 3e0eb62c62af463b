package populate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
)

// changes tells in events what is different between two statuses: how the claim is bound, the phase, and what keeps the worker from
// running.
func changes(dv *cdiv1.DataVolume, old, now cdiv1.DataVolumeStatus) []action.Event {
	var events []action.Event
	before, _ := find(old.Conditions, cdiv1.DataVolumeBound)
	after, ok := find(now.Conditions, cdiv1.DataVolumeBound)
	if ok && after.Reason != "" && before.Reason != after.Reason {
		reason := after.Reason
		if reason == cdi.ReasonClaimLost {
			reason = cdi.ReasonErrClaimLost // CDI's two words for it
		}
		events = append(events, action.Event{Type: boundType(reason), Reason: reason, Message: after.Message})
	}
	if e, ok := phaseEvent(dv.Name, now.Phase, IsClone(dv)); ok && old.Phase != now.Phase {
		events = append(events, e)
	}
	ran, _ := find(old.Conditions, cdiv1.DataVolumeRunning)
	runs, _ := find(now.Conditions, cdiv1.DataVolumeRunning)
	if runs.Status == corev1.ConditionFalse && hinders(runs.Reason) && runs.Reason != ran.Reason {
		events = append(events, action.Event{Type: corev1.EventTypeWarning, Reason: runs.Reason, Message: runs.Message})
	}
	return events
}

// hinders says whether a reason of Running that is False is trouble that no other event tells: neither a step that every worker takes,
// nor the end of an attempt, which failure tells.
func hinders(reason string) bool {
	switch reason {
	case "", cdi.ReasonPending, cdi.ReasonCompleted, cdi.ReasonError, cdi.ReasonChecksumError:
		return false
	default:
		return true
	}
}

// failure tells how an attempt ended that ended with a fault.
func (f *flow) failure(old, now cdiv1.DataVolumeStatus) []action.Event {
	refused := now.Phase == cdiv1.Failed && old.Phase != cdiv1.Failed && f.memory.Outcome == job.Refused
	if now.RestartCount <= old.RestartCount && !refused {
		return nil
	}
	return []action.Event{{Type: corev1.EventTypeWarning, Reason: runningReason(f.memory), Message: f.memory.Message}}
}

// way tells how a disk is made from another volume, each time that this is decided.
func (f *flow) way() []action.Event {
	old := f.told()
	switch {
	case f.clone.Strategy == "" || f.clone.Strategy == old.Strategy && f.clone.Reason == old.Reason:
		return nil
	case f.clone.FellBack:
		return []action.Event{{Type: corev1.EventTypeWarning, Reason: f.clone.Reason, Message: f.clone.Message}}
	default:
		return []action.Event{{Type: corev1.EventTypeNormal, Reason: f.clone.Reason, Message: f.clone.Message}}
	}
}

// beginning tells once how the worker at work has begun, where that isn't at the beginning.
func (f *flow) beginning(old, now cdiv1.DataVolumeStatus) []action.Event {
	reason, tale := f.tale()
	ran, _ := find(old.Conditions, cdiv1.DataVolumeRunning)
	runs, _ := find(now.Conditions, cdiv1.DataVolumeRunning)
	if tale == "" || runs.Status != corev1.ConditionTrue || strings.Contains(ran.Message, tale) {
		return nil
	}
	return []action.Event{{Type: corev1.EventTypeNormal, Reason: reason, Message: tale}}
}

// boundType is Normal for the steps that every claim takes.
func boundType(reason string) string {
	switch reason {
	case cdi.ReasonPending, cdi.ReasonBound, cdi.ReasonNotFound:
		return corev1.EventTypeNormal
	default:
		return corev1.EventTypeWarning
	}
}

// phaseEvent is the event for a phase, with the CDI API's reasons and texts.
func phaseEvent(claim string, phase cdiv1.DataVolumePhase, clones bool) (action.Event, bool) {
	kind, done := "Import", "imported"
	if clones {
		kind, done = "Clone", "cloned"
	}
	texts := map[cdiv1.DataVolumePhase]action.Event{
		cdiv1.ImportScheduled:    {Type: corev1.EventTypeNormal, Reason: "ImportScheduled", Message: fmt.Sprintf("Import into %s scheduled", claim)},
		cdiv1.ImportInProgress:   {Type: corev1.EventTypeNormal, Reason: "ImportInProgress", Message: fmt.Sprintf("Import into %s in progress", claim)},
		cdiv1.CloneScheduled:     {Type: corev1.EventTypeNormal, Reason: "CloneScheduled", Message: fmt.Sprintf("Cloning into %s scheduled", claim)},
		cdiv1.CloneInProgress:    {Type: corev1.EventTypeNormal, Reason: "CloneInProgress", Message: fmt.Sprintf("Cloning into %s in progress", claim)},
		cdiv1.CSICloneInProgress: {Type: corev1.EventTypeNormal, Reason: "CSICloneInProgress", Message: fmt.Sprintf("The storage driver clones into %s", claim)},
		cdiv1.SnapshotForSmartCloneInProgress: {Type: corev1.EventTypeNormal, Reason: "SnapshotForSmartCloneInProgress",
			Message: fmt.Sprintf("A snapshot is made for %s", claim)},
		cdiv1.CloneFromSnapshotSourceInProgress: {Type: corev1.EventTypeNormal, Reason: "CloneFromSnapshotSourceInProgress",
			Message: fmt.Sprintf("The storage driver restores a snapshot into %s", claim)},
		cdiv1.ExpansionInProgress: {Type: corev1.EventTypeNormal, Reason: "ExpansionInProgress", Message: fmt.Sprintf("The volume of %s grows", claim)},
		cdiv1.Succeeded:           {Type: corev1.EventTypeNormal, Reason: kind + "Succeeded", Message: fmt.Sprintf("Successfully %s into PVC %s", done, claim)},
		cdiv1.Failed:              {Type: corev1.EventTypeWarning, Reason: kind + "Failed", Message: fmt.Sprintf("Failed to %s into PVC %s", strings.ToLower(kind), claim)},
		cdiv1.WaitForFirstConsumer: {Type: corev1.EventTypeNormal, Reason: "WaitForFirstConsumer",
			Message: fmt.Sprintf("PVC %s waits for its first consumer", claim)},
	}
	e, ok := texts[phase]
	return e, ok
}
