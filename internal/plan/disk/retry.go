package disk

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
)

// Retry is what becomes of the wish that a disk be tried again now.
type Retry struct {
	// Ask is the object whose retry annotation is to get a new value; nil: that would be of no use.
	Ask action.Object
	// Sentence tells the person what will happen, or why nothing does.
	Sentence string
	// Hopeless: the disk has trouble that no try can mend.
	Hopeless bool
}

// RetryOf judges a wish for a VMDisk and the DataVolume of its name, either of which may be nil.
func RetryOf(w World) Retry {
	var name string
	var told action.Object
	switch {
	case w.Disk != nil:
		name, told = "VMDisk "+w.Disk.Name, w.Disk
	case w.DataVolume != nil:
		name, told = "DataVolume "+w.DataVolume.Name, w.DataVolume
	default:
		return Retry{Hopeless: true, Sentence: "there is no such disk"}
	}
	if told.GetDeletionTimestamp() != nil {
		return Retry{Hopeless: true, Sentence: name + " is being deleted: it is not tried any more"}
	}
	if w.DataVolume == nil || w.Disk != nil && !metav1.IsControlledBy(w.DataVolume, w.Disk) {
		return Retry{Ask: told, Sentence: fmt.Sprintf("%s has not begun: %s. What can be done about that is tried again now", name, sentenceOf(w.workloads().Message))}
	}
	r := w.retryBegun(name)
	if r.Ask == nil || r.Hopeless {
		return r
	}
	r.Ask = told
	return r
}

// retryBegun judges a disk that has a DataVolume.
func (w World) retryBegun(name string) Retry {
	dv := w.DataVolume
	runs, bound := w.told(cdiv1.DataVolumeRunning), w.told(cdiv1.DataVolumeBound)
	why := sentenceOf(w.why())
	switch phase := dv.Status.Phase; {
	case phase == cdiv1.Succeeded:
		return Retry{Sentence: name + " is fine: it holds its bytes, and nothing is done"}
	case bound.Reason == cdi.ReasonClaimLost:
		return Retry{Hopeless: true, Sentence: fmt.Sprintf("%s can't be tried again: %s", name, why)}
	case runs.Status == corev1.ConditionTrue:
		return Retry{Sentence: fmt.Sprintf("%s is being filled just now (%s): nothing is done", name, dv.Status.Progress)}
	case phase == cdiv1.WaitForFirstConsumer && bound.Reason == cdi.ReasonPending:
		return Retry{Sentence: name + " waits for its first consumer, and a try would wait as well: start its virtual machine, or let it bind immediately"}
	case phase == cdiv1.Failed:
		return Retry{Ask: dv, Sentence: fmt.Sprintf("%s has failed: %s. It is tried again now: the same volume is filled anew, and nothing is deleted", name, why)}
	case runs.Reason == cdi.ReasonError:
		return Retry{Ask: dv, Sentence: fmt.Sprintf("%s waits: %s. It is tried again now, and goes on where the last attempt stopped if that is possible", name, why)}
	case why == "":
		return Retry{Ask: dv, Sentence: name + " is on its way. It is tried again now if it waits for anything"}
	default:
		return Retry{Ask: dv, Sentence: fmt.Sprintf("%s waits: %s. It is tried again now, and needs what it waits for all the same", name, why)}
	}
}

// sentenceOf is a message as a part of a sentence.
func sentenceOf(message string) string { return strings.TrimRight(message, ".") }
