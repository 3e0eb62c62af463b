package populator

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

const (
	// lookAgain is how long to wait before looking again for what isn't watched: Secrets, ConfigMaps, and what may have been refused for.
	lookAgain = 30 * time.Second
	// yieldAfter is how many attempts may fail before the place is given to somebody who waits.
	yieldAfter = 3
)

// flow is one pass over the steps.
type flow struct {
	World
	now     time.Time
	actions []action.Action
}

// verdict is what the deciding step says.
type verdict struct {
	reason, message string
	progress        string
	yields          bool
	again           time.Duration
}

// Plan decides what a target needs next.
func Plan(w World, now time.Time) action.Decision[Status] {
	f := &flow{World: w, now: now}
	steps := []func(*flow) *verdict{
		permitted, staying, handed, // once the volume is on its way, nothing else counts
		local, sourced, possible, wanted, // what was asked for
		tidy, admitted, supplied, made, // the temporary disk
		lasting, copied, filled, cleaned, // its filling
	}
	for _, step := range steps {
		if v := step(f); v != nil {
			return f.decision(*v)
		}
	}
	return f.decision(*hand(f))
}

func (f *flow) do(actions ...action.Action) { f.actions = append(f.actions, actions...) }

// discard removes the temporary disk, with the copies of what it needed.
func (f *flow) discard() {
	for _, in := range f.Inputs {
		f.drop(in)
	}
	f.do(rebind.Undo(f.move())...)
}

func (f *flow) drop(in Input) {
	if in.Copy != nil && in.Copy.GetDeletionTimestamp() == nil {
		f.do(action.Delete{Object: in.Copy})
	}
}

// permitted: the API server lets the populator do what it must. A creation's refusal belongs to the step that creates.
func permitted(f *flow) *verdict {
	if f.Refusal == nil || f.Target == nil {
		return nil
	}
	if _, creates := f.Refusal.Action.(action.Create); creates {
		return nil
	}
	return &verdict{reason: reasonRefused, again: lookAgain, message: cause.OfRefusal("to "+f.Refusal.Action.String(), f.Refusal.Text).Sentence}
}

// staying: the target is there, and stays. If not, nothing of what was made for it does, either.
func staying(f *flow) *verdict {
	if f.Target != nil && (f.Target.DeletionTimestamp == nil || f.bound()) {
		return nil
	}
	f.discard()
	v := &verdict{}
	if f.Refusal != nil { // there is nobody to tell, and nothing may ever change by itself
		v.again = lookAgain
	}
	return v
}

// handed: the target has no volume, and none is on its way to it.
func handed(f *flow) *verdict {
	if !f.bound() && !f.begun() {
		return nil
	}
	return hand(f)
}

// hand is a step of handing the volume over.
func hand(f *flow) *verdict {
	move := rebind.Plan(f.move())
	switch move.State {
	case rebind.Elsewhere:
		f.discard()
		return &verdict{reason: reasonElsewhere, message: move.Message + ", which somebody else gave it: it is not filled"}
	case rebind.Moved:
		if told := population(f.Target); told == "" || told == reasonElsewhere {
			return &verdict{}
		}
		return &verdict{reason: reasonSucceeded, message: fmt.Sprintf("Successfully imported into PVC %s", f.Target.Name), progress: "100.0%"}
	case rebind.Lost:
		f.discard()
		return &verdict{reason: reasonAgain, message: move.Message + ": the disk is filled again from the beginning"}
	case rebind.Impossible:
		return &verdict{reason: reasonImpossible, message: move.Message}
	default:
		f.do(move.Actions...)
		return &verdict{reason: reasonRebind, message: move.Message, progress: "99.99%"}
	}
}

// tidy: no temporary claim is left of an earlier disk. It may hold half of one, and it takes a place.
func tidy(f *flow) *verdict {
	if f.DataVolume != nil || f.Temporary == nil {
		return nil
	}
	f.discard()
	return &verdict{}
}

// supplied: what the source needs is in the target's namespace.
func supplied(f *flow) *verdict {
	if f.DataVolume != nil {
		return nil
	}
	for _, in := range f.Inputs {
		if in.Original == nil {
			return &verdict{reason: reasonInputMissing, again: lookAgain, message: fmt.Sprintf(
				"VolumeImportSource %s needs %s %s, which namespace %s doesn't have: create it, and the import goes on by itself", f.Source.Name, in.kind(), in.Name, f.Target.Namespace)}
		}
	}
	return nil
}

func (in Input) kind() string {
	if in.Secret {
		return "Secret"
	}
	return "ConfigMap"
}

// admitted: it is the target's turn.
func admitted(f *flow) *verdict {
	if f.DataVolume != nil {
		return nil
	}
	turn := f.Line.Of(f.UID)
	if turn.Now {
		return nil
	}
	return &verdict{reason: reasonQueued, message: fmt.Sprintf(
		"place %d of %d in the line of those that wait to be filled: quota %q of the operator's namespace %s has no room for it now (asked %s, used %s of %s); it goes on by itself",
		turn.Place, turn.Of, turn.Full.Name, f.Settings.Namespace, turn.Full.Asked, turn.Full.Used, turn.Full.Hard)}
}

// made: the temporary disk's DataVolume exists.
func made(f *flow) *verdict {
	scheduled := &verdict{reason: reasonScheduled, message: "the disk is filled in the operator's namespace, and then handed to this claim"}
	switch {
	case f.DataVolume != nil && f.DataVolume.DeletionTimestamp == nil:
		return nil
	case f.Refusal != nil:
		r := cause.OfRefusal("the temporary disk", f.Refusal.Text)
		return &verdict{reason: reasonRefused, message: r.Sentence, again: lookAgain}
	case f.DataVolume != nil: // it is going
		f.discard()
	default:
		f.do(action.Create{Object: newDataVolume(f.World)})
	}
	return scheduled
}

// lasting: the temporary claim has not lost its volume.
func lasting(f *flow) *verdict {
	if f.Temporary == nil || f.Temporary.Status.Phase != corev1.ClaimLost {
		return nil
	}
	f.discard()
	return &verdict{reason: reasonAgain, message: "the temporary volume is gone: the disk is filled again from the beginning"}
}

// copied: the temporary disk has what its source needs.
func copied(f *flow) *verdict {
	if f.DataVolume.Status.Phase == cdiv1.Succeeded {
		return nil
	}
	for _, in := range f.Inputs {
		if in.Copy != nil {
			continue
		}
		if in.Original == nil {
			return &verdict{reason: reasonInputMissing, again: lookAgain, message: fmt.Sprintf("%s %s is gone from namespace %s: create it again, and the import goes on by itself", in.kind(), in.Name, f.Target.Namespace)}
		}
		if f.Refusal != nil {
			return &verdict{reason: reasonRefused, again: lookAgain, message: cause.OfRefusal(fmt.Sprintf("the copy of %s %s", in.kind(), in.Name), f.Refusal.Text).Sentence}
		}
		f.do(action.Create{Object: newCopy(f.World, in)})
	}
	return nil
}

// filled: the temporary disk holds its bytes. Until then, what it says is what the target says.
func filled(f *flow) *verdict {
	dv := f.DataVolume
	running, bound := conditionOf(dv, cdiv1.DataVolumeRunning), conditionOf(dv, cdiv1.DataVolumeBound)
	v := &verdict{reason: reasonScheduled, message: running.Message, progress: string(dv.Status.Progress)}
	if running.Status != corev1.ConditionTrue && bound.Status != corev1.ConditionTrue && bound.Message != "" {
		v.message = "the temporary claim: " + bound.Message
	}
	full := f.Temporary != nil && f.Temporary.Annotations[cdi.PopulatedFor] == dv.Name // what the claim says, not the phase of another claim's time
	failing := dv.Status.RestartCount > 0 && running.Status != corev1.ConditionTrue
	switch {
	case full && dv.Status.Phase == cdiv1.Succeeded:
		return nil
	case dv.Status.Phase == cdiv1.Failed:
		v.reason = reasonFailed
	case failing && dv.Status.RestartCount >= yieldAfter && f.Line.Crowded():
		f.discard()
		return &verdict{reason: reasonQueued, yields: true, message: fmt.Sprintf("it gave its place to others that wait, after %d attempts; the last ended with: %s", dv.Status.RestartCount, cause.WithoutTry(running.Message))}
	case failing:
		v.reason = reasonRetry
	case dv.Status.Phase == cdiv1.ImportInProgress:
		v.reason = reasonRunning
		if v.message == "" {
			v.message = "a worker in the operator's namespace fills the disk"
		}
	}
	if v.message == "" {
		v.message = "a worker in the operator's namespace is on its way"
	}
	return v
}

// cleaned: what was copied for the transfer is gone.
func cleaned(f *flow) *verdict {
	var left bool
	for _, in := range f.Inputs {
		left = left || in.Copy != nil
		f.drop(in)
	}
	if !left {
		return nil
	}
	return &verdict{reason: reasonRebind, message: "the copies of what the import needed are being removed", again: time.Second}
}

func conditionOf(dv *cdiv1.DataVolume, kind cdiv1.DataVolumeConditionType) cdiv1.DataVolumeCondition {
	for _, c := range dv.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return cdiv1.DataVolumeCondition{}
}
