package disk

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/cause"
)

// events tell the disk's story: a line when its phase changes, and one when its spec can't be served.
func (w World) events(ready, workloads metav1.Condition) []action.Event {
	var events []action.Event
	old := meta.FindStatusCondition(w.Disk.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Status == metav1.ConditionFalse && (old == nil || old.Reason != ready.Reason) {
		events = append(events, action.Event{Type: corev1.EventTypeWarning, Reason: ready.Reason, Message: ready.Message})
	}
	if w.DataVolume == nil || !w.owned() || string(w.DataVolume.Status.Phase) == w.Disk.Status.Phase {
		return w.failure(events)
	}
	e := action.Event{Type: corev1.EventTypeNormal, Reason: string(w.DataVolume.Status.Phase), Message: workloads.Message}
	switch w.DataVolume.Status.Phase {
	case cdiv1.PhaseUnset:
		return w.failure(events)
	case cdiv1.Failed:
		e.Type = corev1.EventTypeWarning
	}
	return w.failure(append(events, e))
}

// failure adds a line when the disk meets trouble that its conditions did not tell yet. A retry that meets the same again is silent.
func (w World) failure(events []action.Event) []action.Event {
	if w.DataVolume == nil || !w.owned() || w.DataVolume.Status.Phase == cdiv1.Failed {
		return events
	}
	for _, c := range w.DataVolume.Status.Conditions {
		if c.Status != corev1.ConditionFalse || c.Message == "" || !telling(c) {
			continue
		}
		trouble := cause.WithoutTry(c.Message)
		old := meta.FindStatusCondition(w.Disk.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
		if old == nil || !strings.Contains(old.Message, trouble) {
			return append(events, action.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: trouble})
		}
	}
	return events
}

// telling says whether a condition is trouble, and not a step that every disk takes.
func telling(c cdiv1.DataVolumeCondition) bool {
	switch c.Reason {
	case "", "Pending", "NotFound", "Completed", "Bound":
		return false
	default:
		return c.Type != cdiv1.DataVolumeReady
	}
}
