package status

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/disk"
)

// verdict is what the deciding rule says.
type verdict struct {
	state     State
	doing     string
	since     metav1.Time
	reason    string
	why       string
	lastError string
	do        []string
	// runs says that a worker is at work, so that there is progress.
	runs bool
}

// judge asks the rules in their order; the first that has something to say decides. Each may assume that those before had nothing.
func (s Seen) judge() verdict {
	rules := []func(Seen) *verdict{
		goes, overlooked, refused, unmade, // the VMDisk
		going, unnoticed, filled, failed, rests, runs, troubled, // its DataVolume
	}
	for _, rule := range rules {
		if v := rule(s); v != nil {
			return *v
		}
	}
	return s.stepping()
}

// slow is how long a controller may take to look at an object before that is worth a word.
const slow = 30 * time.Second

// goes: the VMDisk is being deleted.
func goes(s Seen) *verdict {
	if s.Disk == nil || s.Disk.DeletionTimestamp == nil {
		return nil
	}
	return leaving(s.Disk)
}

// going: the DataVolume is being deleted.
func going(s Seen) *verdict {
	if s.DataVolume.DeletionTimestamp == nil {
		return nil
	}
	return leaving(s.DataVolume)
}

func leaving(o metav1.Object) *verdict {
	v := &verdict{state: Deleting, doing: "being deleted", since: *o.GetDeletionTimestamp(), why: "Kubernetes removes it with what it owns: the worker and the claim"}
	if f := o.GetFinalizers(); len(f) > 0 {
		v.why = "it stays until its finalizers are removed: " + strings.Join(f, ", ")
		v.do = []string{"Ask who has set the finalizers: vmdisk sets none. foregroundDeletion and orphan are Kubernetes' own, and go by themselves."}
	}
	return v
}

// overlooked: no controller has ever looked at the VMDisk.
func overlooked(s Seen) *verdict {
	if s.Disk == nil || s.Disk.Status.ObservedGeneration > 0 || s.Disk.Generation == 0 {
		return nil
	}
	return s.unheard("vmdisk's controller has not looked at it yet", s.Disk.CreationTimestamp)
}

// unnoticed is the same for a DataVolume.
func unnoticed(s Seen) *verdict {
	if len(s.DataVolume.Status.Conditions) > 0 || s.DataVolume.Status.Phase != cdiv1.PhaseUnset {
		return nil
	}
	return s.unheard("no controller has looked at the DataVolume yet", s.DataVolume.CreationTimestamp)
}

func (s Seen) unheard(why string, since metav1.Time) *verdict {
	v := &verdict{state: Working, doing: "new", why: why, since: since}
	if s.At.Sub(since.Time) > slow {
		v.state, v.doing = Waiting, "waiting for the controller"
		v.do = []string{"See whether the controller runs: kubectl vmdisk check."}
	}
	return v
}

// refused: nothing can be made of the VMDisk's spec.
func refused(s Seen) *verdict {
	if s.Disk == nil || s.owned() {
		return nil
	}
	ready := meta.FindStatusCondition(s.Disk.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return nil
	}
	v := &verdict{state: Waiting, doing: "not made", since: ready.LastTransitionTime, reason: ready.Reason, why: ready.Message}
	if ready.Reason == disk.SourceNotServed {
		v.state = Failed
		v.do = []string{"A disk's source can't be changed: delete the disk, and make it with another source."}
	}
	return v
}

// unmade: the VMDisk has no DataVolume yet, or none that could be read. Then the VMDisk's own conditions are all there is.
func unmade(s Seen) *verdict {
	if s.DataVolume != nil {
		return nil
	}
	c := meta.FindStatusCondition(s.Disk.Status.Conditions, v1alpha1.ConditionWorkloadsReady)
	if c == nil {
		return s.unheard("its DataVolume is not there yet", s.Disk.CreationTimestamp)
	}
	v := &verdict{since: c.LastTransitionTime, reason: c.Reason, why: c.Message}
	switch {
	case c.Status == metav1.ConditionTrue && c.Reason == disk.WaitingForConsumer:
		v.state, v.doing = Ready, resting
	case c.Status == metav1.ConditionTrue:
		v.state, v.doing = Ready, full
	case s.Disk.Status.Phase == string(cdiv1.Failed):
		v.state, v.doing = Failed, "failed"
	case s.DataVolumeUnread:
		v.state, v.doing, v.runs = Waiting, "not ready", s.Disk.Status.Phase == string(cdiv1.ImportInProgress)
	default:
		v.state, v.doing = Waiting, "waiting for its DataVolume"
		v.do = []string{"vmdisk's controller makes it. See whether it runs: kubectl vmdisk check."}
	}
	return v
}

// What a disk does that a machine can use.
const (
	full    = "filled and ready"
	resting = "resting until its virtual machine comes"
)

func filled(s Seen) *verdict {
	if s.DataVolume.Status.Phase != cdiv1.Succeeded {
		return nil
	}
	return &verdict{state: Ready, doing: full, since: s.told(cdiv1.DataVolumeReady).LastTransitionTime}
}

func failed(s Seen) *verdict {
	if s.DataVolume.Status.Phase != cdiv1.Failed {
		return nil
	}
	c := s.told(cdiv1.DataVolumeRunning)
	if c.Message == "" {
		c = s.told(cdiv1.DataVolumeBound)
	}
	v := &verdict{state: Failed, doing: "failed", since: c.LastTransitionTime, reason: c.Reason, why: c.Message}
	v.do = []string{s.remedy(c.Reason)}
	return v
}

// rests: the disk waits for its first consumer, as it is supposed to.
func rests(s Seen) *verdict {
	switch s.DataVolume.Status.Phase {
	case cdiv1.WaitForFirstConsumer, cdiv1.PendingPopulation:
	default:
		return nil
	}
	if _, is := disk.Troubled(s.DataVolume); is {
		return nil
	}
	v := &verdict{state: Ready, doing: resting, since: s.told(cdiv1.DataVolumeBound).LastTransitionTime,
		why: "its class makes a volume on the node where the disk is used first",
		do:  []string{"Start the virtual machine, and the disk is filled there. To fill it now, on any node, set bindImmediately: true."}}
	if s.Disk == nil {
		v.do = []string{fmt.Sprintf("Start the virtual machine, and the disk is filled there. To fill it now, on any node: kubectl -n %s annotate datavolume %s %s=", s.Namespace, s.Name, cdi.BindImmediate)}
		return v
	}
	if !meta.IsStatusConditionTrue(s.Disk.Status.Conditions, v1alpha1.ConditionWorkloadsReady) {
		v.state, v.doing, v.do = Waiting, "waiting for its first consumer", nil
	}
	return v
}

func runs(s Seen) *verdict {
	c := s.told(cdiv1.DataVolumeRunning)
	if c.Status != corev1.ConditionTrue {
		return nil
	}
	return &verdict{state: Working, doing: "being filled", since: c.LastTransitionTime, lastError: c.Message, runs: true}
}

// troubled: the DataVolume says what is wrong.
func troubled(s Seen) *verdict {
	c, is := disk.Troubled(s.DataVolume)
	if !is {
		return nil
	}
	return &verdict{state: Waiting, doing: trouble(c.Reason), since: c.LastTransitionTime, reason: c.Reason, why: c.Message, do: nonempty(s.remedy(c.Reason))}
}

// stepping is what is left: a step that every disk takes.
func (s Seen) stepping() verdict {
	bound, running := s.told(cdiv1.DataVolumeBound), s.told(cdiv1.DataVolumeRunning)
	v := verdict{state: Working, since: bound.LastTransitionTime, why: bound.Message}
	switch phase := s.DataVolume.Status.Phase; phase {
	case cdiv1.PhaseUnset, cdiv1.Pending:
		v.doing = "waiting for its volume"
	case cdiv1.ImportScheduled:
		v.doing, v.since, v.why = "its worker is starting", running.LastTransitionTime, running.Message
	case cdiv1.ImportInProgress:
		v.doing, v.since, v.why = "between two workers", running.LastTransitionTime, running.Message
	default:
		v.doing, v.since, v.why = fmt.Sprintf("in phase %s", phase), running.LastTransitionTime, running.Message
	}
	return v
}

// owned says whether the VMDisk has made the DataVolume, or nobody has.
func (s Seen) owned() bool {
	return s.DataVolume != nil && (s.Disk == nil || metav1.IsControlledBy(s.DataVolume, s.Disk))
}

// told is a condition of the DataVolume; empty if it has none of the kind.
func (s Seen) told(kind cdiv1.DataVolumeConditionType) cdiv1.DataVolumeCondition {
	return disk.Told(s.DataVolume, kind)
}

func nonempty(sentence string) []string {
	if sentence == "" {
		return nil
	}
	return []string{sentence}
}

// notes are what the VMDisk's spec asks for and doesn't get, where the disk itself is made.
func (s Seen) notes(v verdict) []string {
	if s.Disk == nil || v.state == Deleting || s.Disk.Status.ObservedGeneration == 0 {
		return nil
	}
	var notes []string
	if s.Disk.Status.ObservedGeneration < s.Disk.Generation {
		notes = append(notes, "vmdisk's controller has not looked at the last change yet: if that lasts, see whether it runs: kubectl vmdisk check")
	}
	ready := meta.FindStatusCondition(s.Disk.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionFalse && ready.Message != v.why {
		notes = append(notes, ready.Message)
	}
	if resizing := meta.FindStatusCondition(s.Disk.Status.Conditions, v1alpha1.ConditionResizing); resizing != nil && resizing.Reason != disk.Resized {
		notes = append(notes, resizing.Message)
	}
	return notes
}
