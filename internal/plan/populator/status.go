package populator

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
)

// Status is the target's annotations: what a person sees who describes it.
type Status map[string]string

// The reasons of a target's sentence.
const (
	reasonSourceMissing = "SourceMissing"
	reasonNotServed     = "NotServed"
	reasonImpossible    = "Impossible"
	reasonClassMissing  = "StorageClassMissing"
	reasonConsumer      = "WaitForFirstConsumer"
	reasonInputMissing  = "InputMissing"
	reasonQueued        = "Queued"
	reasonRefused       = "Refused"
	reasonScheduled     = "ImportScheduled"
	reasonRunning       = "ImportInProgress"
	reasonFailed        = "ImportFailed"
	reasonRetry         = "ErrImportFailed"
	reasonRebind        = "RebindInProgress"
	reasonElsewhere     = "BoundElsewhere"
	reasonAgain         = "StartingOver"
	reasonSucceeded     = "ImportSucceeded"
)

// decision completes a verdict: the target's annotations, and an event for each new reason.
func (f *flow) decision(v verdict) action.Decision[Status] {
	d := action.Decision[Status]{Actions: f.actions, Again: v.again}
	if f.Target == nil {
		return d
	}
	d.Status = maps.Clone(Status(f.Target.Annotations))
	if d.Status == nil {
		d.Status = Status{}
	}
	before := population(f.Target)
	if v.reason == "" { // nothing to say that hasn't been said
		return d
	}
	d.Status[v1alpha1.PopulationAnnotation] = v.reason + ": " + v.message
	d.Status[cdi.UsePopulator] = "true"
	if v.progress != "" {
		d.Status[cdi.PopulatorProgress] = v.progress
	}
	if v.yields {
		d.Status[v1alpha1.YieldedAnnotation] = f.now.UTC().Format(time.RFC3339)
	}
	if v.reason == reasonSucceeded {
		delete(d.Status, v1alpha1.PopulationAnnotation)
		delete(d.Status, v1alpha1.YieldedAnnotation)
	}
	if before != v.reason {
		d.Events = []action.Event{{Type: eventType(v.reason), Reason: v.reason, Message: v.message}}
	}
	return d
}

func eventType(reason string) string {
	switch reason {
	case reasonConsumer, reasonQueued, reasonScheduled, reasonRunning, reasonRebind, reasonSucceeded:
		return corev1.EventTypeNormal
	default:
		return corev1.EventTypeWarning
	}
}

// reasonOf is the reason in a sentence.
func reasonOf(sentence string) string {
	reason, _, _ := strings.Cut(sentence, ": ")
	return reason
}
