// Package rebind decides how a filled volume goes from a temporary claim, in whatever namespace, to the claim that waits for it. Each step
// can be seen in the cluster afterwards, so that it makes no difference who goes on, or when:
//
//  1. the volume is kept, whatever becomes of its claim, and marked with where it goes and how it was to be reclaimed;
//  2. the volume is handed to the target, by UID: another claim of that name can't get it;
//  3. Kubernetes binds the two;
//  4. the temporary claim goes, and not before: until then nothing has been given up;
//  5. the volume is reclaimed as before, and the mark goes.
package rebind

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
)

// World is what was seen of one move. What doesn't exist is nil.
type World struct {
	// Target is the claim that waits for the volume. It is never nil in Plan; Undo is for when it is gone.
	Target *corev1.PersistentVolumeClaim
	// Temporary is the claim that the volume was made and filled for.
	Temporary *corev1.PersistentVolumeClaim
	// Keeper would make the temporary claim again, as its DataVolume does, and so goes first.
	Keeper action.Object
	// Volume is the one that is marked for the target, or else the temporary claim's.
	Volume *corev1.PersistentVolume
	// Class is the volume's class.
	Class *storagev1.StorageClass
}

// State is how far a move has come.
type State string

// The states.
const (
	// Moving: there is something to do, or to wait for.
	Moving State = "Moving"
	// Moved: the target has the volume, and nothing is left of the move.
	Moved State = "Moved"
	// Lost: there is no volume to move any more. What was in it must be made again.
	Lost State = "Lost"
	// Elsewhere: the target has another volume, so the move is undone.
	Elsewhere State = "Elsewhere"
	// Impossible: the target can't have this volume.
	Impossible State = "Impossible"
)

// Verdict is what follows from a World. At most one of the actions is about the volume.
type Verdict struct {
	State   State
	Message string
	Actions []action.Action
}

// Mark is what is remembered on a volume that is on its way.
type Mark struct {
	Target    types.UID                            `json:"target"`
	Namespace string                               `json:"namespace"`
	Name      string                               `json:"name"`
	Policy    corev1.PersistentVolumeReclaimPolicy `json:"policy"`
}

// MarkOf reads a volume's mark; false where it has none.
func MarkOf(volume *corev1.PersistentVolume) (Mark, bool) {
	var m Mark
	if volume == nil || json.Unmarshal([]byte(volume.Annotations[v1alpha1.RebindAnnotation]), &m) != nil || m.Target == "" {
		return Mark{}, false
	}
	return m, true
}

// Begun says whether a volume is on its way to a claim.
func Begun(volume *corev1.PersistentVolume, target types.UID) bool {
	m, ok := MarkOf(volume)
	return ok && m.Target == target
}

// Plan decides what a move needs next.
func Plan(w World) Verdict {
	for _, step := range []func(World) *Verdict{elsewhere, there, fitting, held, handed, bound, cleared, restored} {
		if v := step(w); v != nil {
			return *v
		}
	}
	return Verdict{State: Moved}
}

// Undo removes what is left of a move whose target is gone. The volume is reclaimed as it would have been: Kubernetes does that, since its
// claim is gone, whichever it was.
func Undo(w World) []action.Action {
	actions := w.clear()
	if restore, ok := w.restore(); ok {
		actions = append(actions, restore)
	}
	return actions
}

// elsewhere: the target has no other volume.
func elsewhere(w World) *Verdict {
	to := w.Target.Spec.VolumeName
	if to == "" || w.Volume != nil && w.Volume.Name == to {
		return nil
	}
	return &Verdict{State: Elsewhere, Actions: Undo(w), Message: fmt.Sprintf("claim %s has another volume, %s", w.Target.Name, to)}
}

// there: the volume exists, and is still the temporary claim's or the target's already.
func there(w World) *Verdict {
	switch v := w.Volume; {
	case w.has():
		return nil
	case v == nil:
		return &Verdict{State: Lost, Message: "the volume is gone"}
	case v.DeletionTimestamp != nil:
		return &Verdict{State: Lost, Message: fmt.Sprintf("volume %s is being deleted", v.Name)}
	case refersTo(v, w.Target):
		return nil
	case Begun(v, w.Target.UID) && w.Temporary == nil: // it was kept, and nobody else can have bound it
		return nil
	case w.Temporary == nil || !refersTo(v, w.Temporary):
		return &Verdict{State: Lost, Message: fmt.Sprintf("volume %s is bound to another claim", v.Name)}
	}
	return nil
}

// fitting: the target may have the volume. Once it was handed over that is Kubernetes' to judge.
func fitting(w World) *Verdict {
	if refersTo(w.Volume, w.Target) {
		return nil
	}
	if why := Misfit(w); why != "" {
		return &Verdict{State: Impossible, Message: why}
	}
	return nil
}

// held: the volume stays, whatever becomes of the temporary claim.
func held(w World) *Verdict {
	if refersTo(w.Volume, w.Target) || Begun(w.Volume, w.Target.UID) && w.Volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return nil
	}
	policy := w.Volume.Spec.PersistentVolumeReclaimPolicy
	if m, ok := MarkOf(w.Volume); ok {
		policy = m.Policy
	}
	text, err := json.Marshal(Mark{Target: w.Target.UID, Namespace: w.Target.Namespace, Name: w.Target.Name, Policy: policy})
	if err != nil {
		panic(err) // strings always encode
	}
	return moving(fmt.Sprintf("volume %s is being kept for the claim", w.Volume.Name), action.Reclaim{
		Volume: w.Volume, Policy: corev1.PersistentVolumeReclaimRetain, Key: v1alpha1.RebindAnnotation, Mark: string(text)})
}

// handed: the volume refers to the target.
func handed(w World) *Verdict {
	if refersTo(w.Volume, w.Target) {
		return nil
	}
	return moving(fmt.Sprintf("volume %s is being handed to the claim", w.Volume.Name), action.Hand{Volume: w.Volume, Claim: w.Target})
}

// bound: Kubernetes has bound the two.
func bound(w World) *Verdict {
	if w.has() && w.Target.Status.Phase != corev1.ClaimPending {
		return nil
	}
	return moving(fmt.Sprintf("Kubernetes is binding the claim to volume %s", w.Volume.Name))
}

// cleared: the temporary claim is gone.
func cleared(w World) *Verdict {
	if w.Temporary == nil && w.Keeper == nil {
		return nil
	}
	return moving("the temporary claim is being removed", w.clear()...)
}

// restored: the volume is reclaimed as before.
func restored(w World) *Verdict {
	restore, ok := w.restore()
	if !ok {
		return nil
	}
	return moving("the volume's reclaim policy is being restored", restore)
}

// has says whether the target has the volume.
func (w World) has() bool { return w.Volume != nil && w.Target.Spec.VolumeName == w.Volume.Name }

// clear deletes the temporary claim, and before it what would make it again.
func (w World) clear() []action.Action {
	var actions []action.Action
	if w.Keeper != nil && w.Keeper.GetDeletionTimestamp() == nil {
		actions = append(actions, action.Delete{Object: w.Keeper})
	}
	if w.Temporary != nil && w.Temporary.DeletionTimestamp == nil {
		actions = append(actions, action.Delete{Object: w.Temporary})
	}
	return actions
}

// restore gives a marked volume its reclaim policy back; false where there is nothing to restore.
func (w World) restore() (action.Action, bool) {
	m, ok := MarkOf(w.Volume)
	if !ok {
		return nil, false
	}
	return action.Reclaim{Volume: w.Volume, Policy: m.Policy, Key: v1alpha1.RebindAnnotation}, true
}

func moving(message string, actions ...action.Action) *Verdict {
	return &Verdict{State: Moving, Message: message, Actions: actions}
}

// refersTo says whether a volume is this very claim's.
func refersTo(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	r := volume.Spec.ClaimRef
	return r != nil && r.UID == claim.UID && r.Namespace == claim.Namespace && r.Name == claim.Name
}
