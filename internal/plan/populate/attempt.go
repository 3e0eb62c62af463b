package populate

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/cause"
)

// remember: it is known how the worker ended.
func remember(f *flow) *verdict {
	result, ended, over := endOf(f.Worker, f.now)
	if !over || f.memory.Pod == f.Worker.UID {
		return nil
	}
	f.memory = f.memory.after(f.Worker.UID, result, f.newest(result), ended)
	switch {
	case result.Outcome != job.Succeeded || f.populated():
	case f.whole():
		f.do(f.mark())
	default:
		f.memory.Outcome = ""
	}
	return nil
}

// asked: nobody has asked for a try now, or it was honoured. With a worker at work, that is the try.
func asked(f *flow) *verdict {
	value := f.DataVolume.Annotations[v1alpha1.RetryAnnotation]
	if value != "" && value != f.memory.Retried && !f.populated() && f.memory.Outcome != job.Succeeded {
		f.memory = f.memory.again(value)
	}
	return nil
}

// noted: what is new of the worker is written down, before anything is done about it. Then a pod that has ended goes. Without a worker
// it is written down as the next begins.
func noted(f *flow) *verdict {
	if f.Worker == nil {
		return nil
	}
	if f.memory.encode() != recall(f.DataVolume, f.Claim.UID).encode() {
		f.do(f.note())
	}
	result, _, over := endOf(f.Worker, f.now)
	keep := result.Outcome == job.Succeeded && f.DataVolume.Annotations[cdi.RetainAfterCompletion] == "true"
	if over && f.Worker.DeletionTimestamp == nil && !keep {
		f.do(action.Delete{Object: f.Worker})
	}
	return nil
}

// filled: the claim does not hold its bytes yet. Somebody may say that it does, by the mark, while a worker still writes: that one goes first.
func filled(f *flow) *verdict {
	if !f.populated() && f.memory.Outcome != job.Succeeded {
		return nil
	}
	if _, _, over := endOf(f.Worker, f.now); f.Worker != nil && !over {
		if f.Worker.DeletionTimestamp == nil {
			f.do(action.Delete{Object: f.Worker})
		}
		v := f.between()
		v.running = f.removed("the disk is ready once it is gone, and nobody else writes to it")
		return v
	}
	return f.succeeded()
}

// possible: the bytes can become a disk.
func possible(f *flow) *verdict {
	if f.memory.Outcome != job.Refused {
		return nil
	}
	return &verdict{phase: cdiv1.Failed, bound: f.boundCondition(),
		running: condition{status: corev1.ConditionFalse, reason: runningReason(f.memory), message: f.memory.Message}}
}

// fillable: this version can fill the claim from the source. A source that can't be served has no claim of ours; this one's was changed
// afterwards, or the claim was made by an installation that served it. A worker that is there has its job already.
func fillable(f *flow) *verdict {
	err := Served(owner, f.DataVolume.Spec)
	if f.Worker != nil || err == nil {
		return nil
	}
	no := condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrClaimNotValid, message: err.Error()}
	return &verdict{phase: cdiv1.PhaseUnset, bound: f.boundCondition(), running: no, ready: no.reason}
}

// wanted: somebody wants the volume now.
func wanted(f *flow) *verdict {
	if f.Worker != nil || f.Claim.Status.Phase == corev1.ClaimBound || !f.volume.WaitsForConsumer() || f.immediate() {
		return nil
	}
	b := f.boundCondition()
	if b.reason != cdi.ReasonPending { // a consumer has come, and its volume can't be made
		return &verdict{phase: cdiv1.WaitForFirstConsumer, bound: b}
	}
	if f.volume.Class.Provisioner == noProvisioner {
		return &verdict{phase: cdiv1.WaitForFirstConsumer, bound: b}
	}
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
		v.running = f.removed("the next begins once it is gone, since two writers would corrupt the disk")
		v.again = lookAgain
	}
	return v
}

// lookAgain is how often a worker is looked at that is slow to go: its node's state is not watched.
const lookAgain = 10 * time.Second

// removed says that the worker is being removed, from where, why if that was our doing, and what follows.
func (f *flow) removed(then string) condition {
	var why, from string
	if f.memory.Pod == f.Worker.UID {
		why = f.between().running.message + "; "
	}
	if node := f.Worker.Spec.NodeName; node != "" {
		from = " from node " + node
	}
	message := fmt.Sprintf("%sworker %s is being removed%s; %s", why, f.Worker.Name, from, then)
	if silence, lost := f.lost(); lost {
		message += "; but " + silence + ": " + ifLost
	}
	return condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending, message: message}
}

// ifLost is what becomes of a worker on a node that doesn't answer.
const ifLost = "the worker may still write there, so nothing is started elsewhere; it goes on once the node is back. " +
	"If it never comes back, an administrator makes sure that the machine is off and deletes the Node object"

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
	// What was seen may be old: the pod's end may be seen before the memory of it. Noting the memory once more fails then, and nothing is
	// started; without that, a disk that has just been filled could be written over.
	begun := f.memory.begins(f.source(), f.Claim.Spec.VolumeName)
	worker := newWorker(f, begun)
	if later := f.workersTurn(worker); later != "" {
		v.running = condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrExceededQuota, message: later}
		v.again = refusedAgain
		return v
	}
	f.memory = begun
	f.do(f.note(), action.Create{Object: worker})
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

// reachable: the worker's node answers.
func reachable(f *flow) *verdict {
	silence, lost := f.lost()
	if !lost {
		return nil
	}
	return &verdict{phase: cdiv1.ImportInProgress, bound: f.boundCondition(), progress: string(f.DataVolume.Status.Progress), again: lookAgain,
		running: condition{status: corev1.ConditionFalse, reason: cdi.ReasonNodeNotReady, message: silence + ": " + ifLost}}
}

// lastWords is how long after the worker's own patience the controller waits: a worker that can ends by itself, and says more.
const lastWords = time.Minute

// lively: something moves in the worker. It shows that in its log; a log that can't be read says nothing about it.
func lively(f *flow) *verdict {
	if f.memory.Pod != f.Worker.UID { // else that was found before, and the worker is still to be deleted
		since, stalled := f.stalled()
		if !stalled {
			return nil
		}
		result := job.Result{Outcome: job.TargetFailed, Reason: "Stalled", Message: fmt.Sprintf(
			"the worker has shown no sign of life since %s and doesn't end by itself: its volume probably hangs; the administrator can see more in the kernel log of node %s and in the storage's own",
			since.UTC().Format("15:04:05 MST"), f.Worker.Spec.NodeName)}
		f.memory = f.memory.after(f.Worker.UID, result, f.newest(result), f.now)
		f.do(f.note())
	}
	f.do(action.Delete{Object: f.Worker})
	v := f.between()
	v.again = lookAgain
	return v
}

// stalled says since when nothing has moved in the worker, if that is for too long.
func (f *flow) stalled() (since time.Time, stalled bool) {
	status, _ := containerStatus(f.Worker)
	if f.Settings.Patience <= 0 || f.Log == nil || status.State.Running == nil {
		return since, false
	}
	since = status.State.Running.StartedAt.Time
	if f.Log.At.After(since) {
		since = f.Log.At
	}
	return since, f.now.Sub(since) >= f.Settings.Patience+lastWords
}

// running is what is left: the worker is at work.
func running(f *flow) *verdict {
	v := &verdict{phase: cdiv1.ImportInProgress, bound: f.boundCondition(), ready: cdi.ReasonTransferRunning,
		running:  condition{status: corev1.ConditionTrue, reason: cdi.ReasonPodRunning, message: f.history()},
		progress: f.progress(), again: progressEvery * time.Duration(1+f.Active/10)}
	return v
}

// history is what was before the worker at work: the last error, and what was made use of. Where its log can't be read for once, it stays.
func (f *flow) history() string {
	if c, ok := find(f.DataVolume.Status.Conditions, cdiv1.DataVolumeRunning); f.Log == nil && ok && c.Status == corev1.ConditionTrue {
		return c.Message
	}
	var all []string
	if f.memory.faulty() {
		all = append(all, fmt.Sprintf("attempt %d runs; attempt %d ended with: %s", f.memory.Attempts+1, f.memory.Attempts, f.memory.Message))
	}
	if _, tale := f.tale(); tale != "" {
		all = append(all, tale)
	}
	return strings.Join(all, "; ")
}

// progressEvery is how often a running worker's log is read, and as many times less often as there are tens of active disks.
const progressEvery = 2 * time.Second

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
