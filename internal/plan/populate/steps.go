package populate

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
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
	steps := []func(*flow) *verdict{
		rendered, made, ours, staying, alive, // the claim
		remember, filled, possible, // what earlier attempts left
		wanted, bound, // what the claim waits for
		left, due, started, // the next attempt
		scheduled, running, // the attempt at work
	}
	for _, step := range steps {
		if v := step(f); v != nil {
			return f.decision(*v)
		}
	}
	return f.decision(verdict{phase: cdiv1.Unknown, bound: f.boundCondition()})
}

// rendered: the spec says what claim to make, and this version serves its source.
func rendered(f *flow) *verdict {
	err := served(f.DataVolume.Spec)
	if err == nil {
		f.volume, err = volume.Of(f.DataVolume.Spec, f.Cluster)
	}
	var bad *volume.Invalid
	switch {
	case err == nil:
		return nil
	case f.Claim != nil && f.owned() && (f.populated() || f.Worker != nil):
		// The claim was made while the spec could be rendered; a class that has gone since takes nothing away.
		return nil
	case errors.As(err, &bad):
		no := condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrClaimNotValid, message: bad.Message}
		return &verdict{phase: cdiv1.PhaseUnset, bound: no, ready: no.reason}
	default:
		return &verdict{phase: cdiv1.Unknown, bound: condition{status: corev1.ConditionUnknown, message: err.Error()}}
	}
}

// made: the claim exists.
func made(f *flow) *verdict {
	if f.Claim != nil {
		return nil
	}
	v := &verdict{phase: cdiv1.Pending, bound: condition{status: corev1.ConditionFalse, reason: cdi.ReasonNotFound, message: "No PVC found"}}
	switch {
	case prePopulated(f.DataVolume):
		v.bound.message = fmt.Sprintf("waiting for claim %s to be restored, as the annotation %s says", f.DataVolume.Name, cdi.PrePopulated)
	case f.Refusal != nil:
		f.refuse(v, &v.bound, fmt.Sprintf("claim %s", f.DataVolume.Name), cdi.ReasonErrClaimNotValid)
		v.ready = v.bound.reason
	default:
		f.do(action.Create{Object: newClaim(f.World, f.volume)})
		v.bound = f.pending()
	}
	return v
}

// ours: the DataVolume controls the claim, or takes it over as it is.
func ours(f *flow) *verdict {
	if f.owned() {
		return nil
	}
	if f.Claim.DeletionTimestamp != nil {
		return &verdict{phase: cdiv1.Pending, bound: f.leaving()}
	}
	if f.adoptable() {
		f.do(f.mark(), action.Own{Object: f.Claim, Owner: ownerOf(f.DataVolume)})
		return f.succeeded()
	}
	message := fmt.Sprintf("claim %s exists already and is not this DataVolume's: delete it, choose another name, or set the annotation %s=true to take it over as it is", f.Claim.Name, cdi.AllowClaimAdoption)
	no := condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrResourceExists, message: message}
	return &verdict{phase: cdiv1.Pending, bound: no, ready: no.reason}
}

// staying: nobody is deleting the claim. If somebody is, its worker is in the way.
func staying(f *flow) *verdict {
	if f.Claim.DeletionTimestamp == nil {
		return nil
	}
	if f.Worker != nil && f.Worker.DeletionTimestamp == nil {
		f.do(action.Delete{Object: f.Worker})
	}
	return &verdict{phase: cdiv1.Pending, bound: f.leaving()}
}

// leaving is the state of a claim that is being deleted, be it this DataVolume's or an earlier one's of the same name.
func (f *flow) leaving() condition {
	return condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending,
		message: fmt.Sprintf("PVC %s is being deleted; a new one is made once it is gone", f.Claim.Name)}
}

// alive: the claim's volume still exists.
func alive(f *flow) *verdict {
	if f.Claim.Status.Phase != corev1.ClaimLost {
		f.memory = recall(f.DataVolume, f.Claim.UID)
		return nil
	}
	return &verdict{phase: cdiv1.Failed, bound: condition{status: corev1.ConditionFalse, reason: cdi.ReasonClaimLost,
		message: fmt.Sprintf("the volume of claim %s is gone, and the disk's bytes with it: delete the disk and make it again", f.Claim.Name)}}
}

// remember: how the worker ended is written down, before anything is done about it. Then the pod goes.
func remember(f *flow) *verdict {
	result, ended, over := endOf(f.Worker, f.now)
	if !over {
		return nil
	}
	if f.memory.Pod != f.Worker.UID {
		f.memory = f.memory.after(f.Worker.UID, result, ended)
		if result.Outcome == job.Succeeded && !f.populated() {
			f.do(f.mark())
		}
		f.do(action.Annotate{Object: f.DataVolume, Annotations: map[string]string{v1alpha1.MemoryAnnotation: f.memory.encode()}})
	}
	keep := result.Outcome == job.Succeeded && f.DataVolume.Annotations[cdi.RetainAfterCompletion] == "true"
	if f.Worker.DeletionTimestamp == nil && !keep {
		f.do(action.Delete{Object: f.Worker})
	}
	return nil
}

// filled: the claim does not hold its bytes yet.
func filled(f *flow) *verdict {
	if f.populated() || f.memory.Outcome == job.Succeeded {
		return f.succeeded()
	}
	return nil
}

// possible: the bytes can become a disk.
func possible(f *flow) *verdict {
	if f.memory.Outcome != job.Refused {
		return nil
	}
	return &verdict{phase: cdiv1.Failed, bound: f.boundCondition(),
		running: condition{status: corev1.ConditionFalse, reason: runningReason(f.memory), message: f.memory.Message}}
}

// wanted: somebody wants the volume now.
func wanted(f *flow) *verdict {
	if f.Worker != nil || f.Claim.Status.Phase == corev1.ClaimBound || !f.volume.WaitsForConsumer() || f.immediate() {
		return nil
	}
	b := f.boundCondition()
	b.message = fmt.Sprintf("PVC %s Pending: StorageClass %s makes its volume when the first pod or virtual machine uses it", f.Claim.Name, f.volume.Class.Name)
	return &verdict{phase: cdiv1.WaitForFirstConsumer, bound: b}
}

// bound: the volume exists, or the worker is the consumer that it waits for.
func bound(f *flow) *verdict {
	if f.Worker != nil || f.Claim.Status.Phase == corev1.ClaimBound || f.volume.WaitsForConsumer() {
		return nil
	}
	return &verdict{phase: cdiv1.Pending, bound: f.boundCondition()}
}

// left: the last worker is gone, so that no two ever write one disk.
func left(f *flow) *verdict {
	_, _, over := endOf(f.Worker, f.now)
	if f.Worker == nil || !over && f.Worker.DeletionTimestamp == nil {
		return nil
	}
	v := f.between()
	v.again = f.until(f.memory.Next)
	if !over {
		v.running = condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending, message: fmt.Sprintf(
			"worker %s is being removed from node %s; the next begins once it is gone, since two writers would corrupt the disk", f.Worker.Name, f.Worker.Spec.NodeName)}
	}
	return v
}

// due: the next attempt's time has come.
func due(f *flow) *verdict {
	if f.Worker != nil || f.until(f.memory.Next) == 0 {
		return nil
	}
	v := f.between()
	v.again = f.until(f.memory.Next)
	return v
}

// started: there is a worker.
func started(f *flow) *verdict {
	if f.Worker != nil {
		return nil
	}
	v := f.attempting()
	if f.Refusal != nil {
		f.refuse(v, &v.running, "the worker", cdi.ReasonErrStartingPod)
		return v
	}
	f.do(action.Create{Object: newWorker(f.World, f.volume, f.memory.Attempts+1)})
	return v
}

// scheduled: the worker's container runs.
func scheduled(f *flow) *verdict {
	if f.Worker.Status.Phase == corev1.PodRunning {
		return nil
	}
	v := f.attempting()
	if c, ok := hindrance(f.Worker, f.Warnings); ok {
		v.running = c
	}
	return v
}

// running: the worker is at work.
func running(f *flow) *verdict {
	v := &verdict{phase: cdiv1.ImportInProgress, bound: f.boundCondition(), ready: cdi.ReasonTransferRunning,
		running:  condition{status: corev1.ConditionTrue, reason: cdi.ReasonPodRunning},
		progress: percent(f.Progress), again: progressEvery * time.Duration(1+f.Active/10)}
	if f.memory.faulty() {
		v.running.message = fmt.Sprintf("attempt %d runs; attempt %d ended with: %s", f.memory.Attempts+1, f.memory.Attempts, f.memory.Message)
	}
	return v
}

// progressEvery is how often a running worker's log is read, and as many times less often as there are tens of active disks.
const progressEvery = 2 * time.Second

// succeeded is the end.
func (f *flow) succeeded() *verdict {
	return &verdict{phase: cdiv1.Succeeded, bound: f.boundCondition(), progress: "100.0%",
		running: condition{status: corev1.ConditionFalse, reason: cdi.ReasonCompleted, message: "Import Complete"}}
}

// attempting is the time from a worker's creation until it runs.
func (f *flow) attempting() *verdict {
	if f.memory.faulty() {
		return f.between()
	}
	return &verdict{phase: cdiv1.ImportScheduled, bound: f.boundCondition(), running: condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending}}
}

// between is the time between two attempts.
func (f *flow) between() *verdict {
	v := &verdict{phase: cdiv1.ImportInProgress, bound: f.boundCondition()}
	v.running = condition{status: corev1.ConditionFalse, reason: runningReason(f.memory), message: f.memory.Message}
	if f.memory.Next != nil {
		v.running.message = cause.WithTry(f.memory.Message, f.memory.Attempts, f.memory.Next.Time)
	}
	return v
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
