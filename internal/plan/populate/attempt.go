package populate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/cause"
)

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
		f.do(f.note())
	}
	keep := result.Outcome == job.Succeeded && f.DataVolume.Annotations[cdi.RetainAfterCompletion] == "true"
	if f.Worker.DeletionTimestamp == nil && !keep {
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
	}
	return v
}

// removed says that the worker is being removed, from where, and what follows.
func (f *flow) removed(then string) condition {
	var from string
	if node := f.Worker.Spec.NodeName; node != "" {
		from = " from node " + node
	}
	return condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending, message: fmt.Sprintf("worker %s is being removed%s; %s", f.Worker.Name, from, then)}
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
	// What was seen may be old: the pod's end may be seen before the memory of it. Noting the memory once more fails then, and nothing is
	// started; without that, a disk that has just been filled could be written over.
	worker := newWorker(f.World, f.volume, f.memory.Attempts+1)
	if later := f.workersTurn(worker); later != "" {
		v.running = condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrExceededQuota, message: later}
		v.again = refusedAgain
		return v
	}
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

// running is what is left: the worker is at work.
func running(f *flow) *verdict {
	v := &verdict{phase: cdiv1.ImportInProgress, bound: f.boundCondition(), ready: cdi.ReasonTransferRunning,
		running:  condition{status: corev1.ConditionTrue, reason: cdi.ReasonPodRunning},
		progress: f.progress(), again: progressEvery * time.Duration(1+f.Active/10)}
	if f.memory.faulty() {
		v.running.message = fmt.Sprintf("attempt %d runs; attempt %d ended with: %s", f.memory.Attempts+1, f.memory.Attempts, f.memory.Message)
	}
	return v
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
