package disk

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
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

// growthEvents tell how the disk grows: a line for each new state.
func (w World) growthEvents(now *metav1.Condition) []action.Event {
	old := meta.FindStatusCondition(w.Disk.Status.Conditions, v1alpha1.ConditionResizing)
	if now == nil || old != nil && old.Reason == now.Reason {
		return nil
	}
	e := action.Event{Type: corev1.EventTypeNormal, Reason: now.Reason, Message: now.Message}
	if now.Reason == ResizeFailed {
		e.Type = corev1.EventTypeWarning
	}
	return []action.Event{e}
}

// trouble is what the disk has met that its conditions did not tell yet; nil for none. A retry that meets the same again is silent.
func (w World) trouble() *action.Event {
	if w.DataVolume.Status.Phase == cdiv1.Failed {
		return nil
	}
	c, troubled := w.troubled()
	if !troubled {
		return nil
	}
	text := cause.WithoutTry(c.Message)
	old := meta.FindStatusCondition(w.Disk.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
	if old != nil && strings.Contains(old.Message, text) {
		return nil
	}
	return &action.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: text}
}

func (w World) troubled() (cdiv1.DataVolumeCondition, bool) { return Troubled(w.DataVolume) }

// Troubled finds a DataVolume's condition that tells of trouble: the worker's, which is the later one, else the claim's.
func Troubled(dv *cdiv1.DataVolume) (cdiv1.DataVolumeCondition, bool) {
	for _, kind := range []cdiv1.DataVolumeConditionType{cdiv1.DataVolumeRunning, cdiv1.DataVolumeBound} {
		if c := Told(dv, kind); c.Status == corev1.ConditionFalse && c.Message != "" && telling(c.Reason) {
			return c, true
		}
	}
	return cdiv1.DataVolumeCondition{}, false
}

// telling says whether a reason is trouble, and not a step that every disk takes.
func telling(reason string) bool {
	switch reason {
	case "", cdi.ReasonPending, cdi.ReasonNotFound, cdi.ReasonCompleted, cdi.ReasonBound:
		return false
	default:
		return true
	}
}
