package populate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/pod"
)

// EndOf says how a worker that fills no disk ended, and when; false while it has not.
func EndOf(worker *corev1.Pod, now time.Time) (job.Result, time.Time, bool) {
	return endOf(worker, now)
}

// Hindrance is what keeps such a worker from running, in a sentence; empty while nothing does.
func Hindrance(worker *corev1.Pod, warnings []corev1.Event) string {
	c, _ := hindrance(worker, warnings)
	return c.message
}

// endOf says how a worker ended, and when; false while there is none or it hasn't ended. Its own container decides: it is never started
// again, and what else is in the pod, such as a mesh's proxy, may run for ever. A container that may still write is never taken for ended.
func endOf(worker *corev1.Pod, now time.Time) (job.Result, time.Time, bool) {
	if worker == nil {
		return job.Result{}, time.Time{}, false
	}
	status, _ := containerStatus(worker)
	end := status.State.Terminated
	switch over := worker.Status.Phase == corev1.PodSucceeded || worker.Status.Phase == corev1.PodFailed; {
	case end == nil && over:
		return unheard(worker), now, true
	case end == nil:
		return job.Result{}, time.Time{}, false
	}
	ended := end.FinishedAt.Time
	if ended.IsZero() {
		ended = now
	}
	if r, ok := job.ParseResult(end.Message); ok {
		return r, ended, true
	}
	return silent(worker, end), ended, true
}

// spoke says whether the worker has left a result.
func spoke(worker *corev1.Pod) bool {
	status, _ := containerStatus(worker)
	if status.State.Terminated == nil {
		return false
	}
	_, ok := job.ParseResult(status.State.Terminated.Message)
	return ok
}

// unheard is the end of a pod whose container never ran or left no trace: the node refused or lost it.
func unheard(worker *corev1.Pod) job.Result {
	reason, message := worker.Status.Reason, strings.TrimSpace(worker.Status.Message)
	if reason == "Evicted" || worker.DeletionTimestamp != nil {
		return job.Result{Outcome: job.Interrupted, Reason: reason, Message: message}
	}
	return job.Result{Outcome: job.TargetFailed, Reason: reason, Message: fmt.Sprintf("node %s did not run the worker: %s", worker.Spec.NodeName, message)}
}

// silent is the end of a container that left no result.
func silent(worker *corev1.Pod, end *corev1.ContainerStateTerminated) job.Result {
	switch {
	case end.Reason == "OOMKilled":
		return job.Result{Outcome: job.Broken, Reason: end.Reason, Message: fmt.Sprintf(
			"the worker needed more memory than its limit of %s: ask the administrator to raise podResourceRequirements in the CDI object's config", memoryLimit(worker))}
	case worker.DeletionTimestamp != nil || worker.Status.Reason == "Evicted":
		return job.Result{Outcome: job.Interrupted, Reason: "Interrupted", Message: "the worker was told to stop"}
	default:
		return job.Result{Outcome: job.Broken, Reason: end.Reason, Message: fmt.Sprintf("the worker ended with exit code %d and said nothing", end.ExitCode)}
	}
}

// memoryLimit is the limit of the worker's own container.
func memoryLimit(worker *corev1.Pod) string {
	for _, c := range worker.Spec.Containers {
		if c.Name == pod.Container {
			return c.Resources.Limits.Memory().String()
		}
	}
	return "0"
}

// containerStatus is the state of the worker's own container. Others may be in the pod: meshes and policies add them.
func containerStatus(worker *corev1.Pod) (corev1.ContainerStatus, bool) {
	i := slices.IndexFunc(worker.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == pod.Container })
	if i < 0 {
		return corev1.ContainerStatus{}, false
	}
	return worker.Status.ContainerStatuses[i], true
}

// hindrance is what keeps a worker from running; false while nothing does.
func hindrance(worker *corev1.Pod, warnings []corev1.Event) (condition, bool) {
	for _, c := range worker.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return condition{corev1.ConditionFalse, cdi.ReasonUnschedulable, "no node takes the worker: " + c.Message}, true
		}
	}
	if s, ok := containerStatus(worker); ok && s.State.Waiting != nil {
		switch wait := s.State.Waiting; wait.Reason {
		case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull":
			return condition{corev1.ConditionFalse, cdi.ReasonImagePullFailed, "the node can't pull the worker's image: " + wait.Message}, true
		case "", "ContainerCreating", "PodInitializing":
		default:
			return condition{corev1.ConditionFalse, wait.Reason, wait.Message}, true
		}
	}
	if w, ok := lastWarning(warnings, string(worker.UID)); ok && w.Reason != "FailedScheduling" { // it is scheduled by now
		return condition{corev1.ConditionFalse, w.Reason, cause.Complaint(w.Reason, w.Message)}, true
	}
	return condition{}, false
}

// lastWarning is the newest Warning about an object that is not of those that pass by themselves.
func lastWarning(warnings []corev1.Event, uid string) (corev1.Event, bool) {
	for _, w := range slices.Backward(warnings) {
		if string(w.InvolvedObject.UID) == uid && !cause.Passing(w.Message) {
			return w, true
		}
	}
	return corev1.Event{}, false
}
