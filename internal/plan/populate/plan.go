package populate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// refusedAgain is how long to wait before asking again for what was refused, in case the change that would let it pass is one that
// is not watched.
const refusedAgain = 30 * time.Second

// flow is one pass over the steps: the world, what follows from it at once, and what was decided on the way.
type flow struct {
	World
	now     time.Time
	volume  volume.Volume
	memory  Memory
	clone   v1alpha1.CloneStatus // how the disk is made, where it is made from another volume
	actions []action.Action
}

// verdict is what the deciding step says. Conditions are completed from it in status.go.
type verdict struct {
	phase    cdiv1.DataVolumePhase
	bound    condition
	running  condition
	ready    string // reason of Ready, while it is not True
	progress string
	again    time.Duration
}

// Plan decides what a DataVolume needs next.
func Plan(w World, now time.Time) action.Decision[cdiv1.DataVolumeStatus] {
	f := &flow{World: w, now: now}
	if w.Claim != nil {
		f.memory = recall(w.DataVolume, w.Claim.UID)
		f.volume = volume.OfClaim(w.Claim.Spec, f.spec(), w.Cluster)
	}
	steps := []func(*flow) *verdict{
		sourced, rendered, snapshotted, made, permitted, ours, staying, alive, pinned, // the claim
		remember, kept, asked, noted, filled, possible, // what earlier attempts left
		away, abandoned, cloning, fillable, wanted, bound, resized, // what the claim waits for
		left, due, readable, placed, started, // the next attempt
		moved, scheduled, reachable, lively, // the attempt at work
	}
	for _, step := range steps {
		if v := step(f); v != nil {
			return f.decision(*v)
		}
	}
	return f.decision(*running(f))
}

// succeeded is the end.
func (f *flow) succeeded() *verdict {
	f.dropSnapshot()
	return &verdict{phase: cdiv1.Succeeded, bound: f.boundCondition(), progress: "100.0%",
		running: condition{status: corev1.ConditionFalse, reason: cdi.ReasonCompleted, message: f.complete()}}
}

func (f *flow) complete() string {
	if IsClone(f.DataVolume) {
		return "Clone Complete"
	}
	return "Import Complete"
}

// refuse puts an action's refusal into a condition.
func (f *flow) refuse(v *verdict, c *condition, what, reason string) {
	r := cause.OfRefusal(what, f.Refusal.Text)
	if r.Quota != nil {
		reason = cdi.ReasonErrExceededQuota
	}
	*c = condition{status: corev1.ConditionFalse, reason: reason, message: r.Sentence}
	v.again = refusedAgain
}

func (f *flow) do(actions ...action.Action) { f.actions = append(f.actions, actions...) }

// mark is the lasting sign on the claim that it holds its bytes.
func (f *flow) mark() action.Action {
	marks := map[string]string{cdi.PopulatedFor: f.DataVolume.Name, cdi.PodPhase: string(corev1.PodSucceeded)}
	if f.owned() && preallocated(f.World) {
		marks[cdi.Preallocation] = "true"
	}
	return action.Annotate{Object: f.Claim, Annotations: marks}
}

// note writes the memory down, if the DataVolume is still as it was observed; and that no populator fills the disk, whatever was asked for.
// Of a clone that annotation is an order, which stays as it is.
func (f *flow) note() action.Action {
	notes := map[string]string{v1alpha1.MemoryAnnotation: f.memory.encode()}
	if s := f.DataVolume.Spec.Source; s != nil && s.PVC == nil && s.Snapshot == nil {
		notes[cdi.UsePopulator] = "false"
	}
	return action.Annotate{Object: f.DataVolume, Annotations: notes}
}

// until is how long it is until a time; 0 once it has come.
func (f *flow) until(t *metav1.Time) time.Duration {
	if t == nil {
		return 0
	}
	return max(0, t.Sub(f.now))
}

func prePopulated(dv *cdiv1.DataVolume) bool {
	_, ok := dv.Annotations[cdi.PrePopulated]
	return ok
}

func ownerOf(dv *cdiv1.DataVolume) metav1.OwnerReference {
	return *metav1.NewControllerRef(dv, cdiv1.SchemeGroupVersion.WithKind("DataVolume"))
}
