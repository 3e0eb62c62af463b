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

// events tell the disk's story: a line when its spec can't be served, one when its phase changes, and one for each new trouble.
func (w World) events(ready, workloads metav1.Condition) []action.Event {
	var events []action.Event
	old := meta.FindStatusCondition(w.Disk.Status.Conditions, v1alpha1.ConditionReady)
	if ready.Status == metav1.ConditionFalse && (old == nil || old.Reason != ready.Reason) {
		events = append(events, action.Event{Type: corev1.EventTypeWarning, Reason: ready.Reason, Message: ready.Message})
	}
	if w.DataVolume == nil || !w.owned() {
		return events
	}
	trouble := w.trouble()
	if phase := w.DataVolume.Status.Phase; phase != cdiv1.PhaseUnset && string(phase) != w.Disk.Status.Phase {
		e := action.Event{Type: corev1.EventTypeNormal, Reason: string(phase), Message: workloads.Message}
		switch {
		case phase == cdiv1.Failed:
			e.Type = corev1.EventTypeWarning
		case trouble != nil: // it has a line of its own
			e.Message = w.sentence("")
		}
		events = append(events, e)
	}
	if trouble != nil {
		events = append(events, *trouble)
	}
	return events
}

// trouble is what the disk has met that its conditions did not tell yet; nil for none. A retry that meets the same again is silent.
func (w World) trouble() *action.Event {
	if w.DataVolume.Status.Phase == cdiv1.Failed {
		return nil
	}
	for _, c := range w.DataVolume.Status.Conditions {
		if c.Status != corev1.ConditionFalse || c.Message == "" || !telling(c) {
			continue
		}
		text := cause.WithoutTry(c.Message)
		old := meta.FindStatusCondition(w.Disk.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
		if old == nil || !strings.Contains(old.Message, text) {
			return &action.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: text}
		}
	}
	return nil
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
