package populate

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// Clone is what was seen of what a disk is made from, while that is not done.
type Clone struct {
	// Plan is how the disk would be made as things are now, as if there were nothing of it, and without waiting for its consumer.
	Plan clone.Plan
	// Source is the source's claim; nil: there is none, or the source is a snapshot.
	Source *corev1.PersistentVolumeClaim
	// Snapshot is the one that was made of the source for this disk.
	Snapshot *clone.VolumeSnapshot
}

// IsClone says whether a DataVolume is made from another volume.
func IsClone(dv *cdiv1.DataVolume) bool {
	s := dv.Spec.Source
	return dv.Spec.SourceRef != nil || s != nil && (s.PVC != nil || s.Snapshot != nil)
}

// spec is the DataVolume's, with the source's size where it says none.
func (f *flow) spec() cdiv1.DataVolumeSpec {
	spec := f.DataVolume.Spec
	if f.Clone == nil || f.Clone.Plan.SourceBytes == 0 || spec.Storage == nil || len(spec.Storage.Resources.Requests) > 0 {
		return spec
	}
	spec = *spec.DeepCopy()
	spec.Storage.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(f.Clone.Plan.SourceBytes, resource.BinarySI)}
	return spec
}

// told is how the DataVolume says that it is made.
func (w World) told() v1alpha1.CloneStatus {
	var s v1alpha1.CloneStatus
	if json.Unmarshal([]byte(w.DataVolume.Annotations[v1alpha1.CloneAnnotation]), &s) != nil {
		return v1alpha1.CloneStatus{}
	}
	return s
}

// native says whether the claim's volume is made by the driver from the source, so that no worker copies anything.
func (w World) native() bool {
	return IsClone(w.DataVolume) && w.Claim.Spec.DataSource != nil && w.owned()
}

// sourced: it is known how a disk is made from another volume. That is decided before there is a claim, and holds for that claim.
func sourced(f *flow) *verdict {
	if !IsClone(f.DataVolume) || prePopulated(f.DataVolume) || f.Static != nil {
		return nil
	}
	if f.Claim != nil || f.Clone == nil {
		f.clone = f.told()
		return nil
	}
	plan := f.Clone.Plan
	no := condition{status: corev1.ConditionFalse, reason: string(plan.Reason), message: plan.Message}
	switch {
	case f.across() && !f.Images.Has(plan.Source):
		no.reason, no.message = cdi.ReasonErrClaimNotValid, fmt.Sprintf("%s is in another namespace, and no golden image: this version of vmdisk clones within a namespace, and golden images into any", plan.Source)
		return &verdict{phase: cdiv1.PhaseUnset, bound: no, ready: no.reason}
	case plan.Strategy == clone.Reject || plan.Strategy == clone.None:
		no.reason = cdi.ReasonErrClaimNotValid
		return &verdict{phase: cdiv1.PhaseUnset, bound: no, ready: no.reason}
	case plan.Strategy == clone.Wait:
		return &verdict{phase: cdiv1.Pending, bound: no, ready: no.reason, again: refusedAgain}
	}
	if f.across() { // decided where the source is
		return nil
	}
	f.clone = f.chosen(plan)
	if f.clone.Strategy == string(clone.HostAssisted) && !plan.Source.IsClaim() {
		no = condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrClaimNotValid, message: fmt.Sprintf(
			"%s would have to be copied (%s), which this version of vmdisk can't do with a snapshot: restore it to a claim, and clone that", plan.Source, f.clone.Message)}
		return &verdict{phase: cdiv1.PhaseUnset, bound: no, ready: no.reason}
	}
	return nil
}

// phase is a phase as it is called for a disk that is made from another volume.
func (f *flow) phase(p cdiv1.DataVolumePhase) cdiv1.DataVolumePhase {
	if !IsClone(f.DataVolume) {
		return p
	}
	drivers := f.Claim != nil && f.native()
	switch {
	case f.Claim != nil && Handed(f.Claim):
	case p == cdiv1.ImportScheduled && !drivers:
		return cdiv1.CloneScheduled
	case p == cdiv1.ImportInProgress && !drivers:
		return cdiv1.CloneInProgress
	case drivers && (p == cdiv1.Pending || p == cdiv1.ImportScheduled || p == cdiv1.ImportInProgress):
		if f.clone.Strategy == string(clone.Snapshot) {
			return cdiv1.CloneFromSnapshotSourceInProgress
		}
		return cdiv1.CSICloneInProgress
	}
	return p
}

// chosen is how the disk is made: as planned, unless that has failed before, or the disk's consumer may be given a node that it can't be used from.
func (f *flow) chosen(plan clone.Plan) v1alpha1.CloneStatus {
	old := f.told()
	s := v1alpha1.CloneStatus{Strategy: string(plan.Strategy), Reason: string(plan.Reason), Message: plan.Message, Source: plan.Source.String(), Since: &metav1.Time{Time: f.now}}
	for _, p := range plan.Trace {
		s.Trace = append(s.Trace, v1alpha1.PassedOver{Strategy: string(p.Strategy), Reason: string(p.Reason), Message: p.Message})
	}
	rests := f.class() != nil && volume.Volume{Class: f.class()}.WaitsForConsumer() && !f.immediate()
	switch {
	case old.FellBack:
		return old
	case rests && plan.Strategy != clone.HostAssisted && len(plan.Nodes) > 0:
		against := fmt.Sprintf("its data would be on %v only, and the disk's consumer may be given another node", plan.Nodes)
		s.Trace = append(s.Trace, v1alpha1.PassedOver{Strategy: s.Strategy, Reason: string(clone.TargetNotReachable), Message: against})
		s.Strategy, s.Reason, s.Message = string(clone.HostAssisted), string(clone.TargetNotReachable), "the bytes are copied: "+against
	}
	if old.Strategy == s.Strategy && old.Reason == s.Reason && old.Message == s.Message {
		s.Since = old.Since
	}
	return s
}

// class is the class that the disk is to be in; nil: not known yet.
func (f *flow) class() *storagev1.StorageClass {
	v, err := volume.Of(f.spec(), f.Cluster)
	if err != nil {
		return nil
	}
	return v.Class
}

// tell writes down how the disk is made, where that isn't yet.
func (f *flow) tell() {
	if f.clone.Strategy == "" {
		return
	}
	text, err := json.Marshal(f.clone)
	if err != nil {
		panic(err) // strings and a time always encode
	}
	if f.DataVolume.Annotations[v1alpha1.CloneAnnotation] != string(text) {
		f.do(action.Annotate{Object: f.DataVolume, Annotations: map[string]string{v1alpha1.CloneAnnotation: string(text)}})
	}
}

// snapshotted: the snapshot that the volume is to be restored from is ready.
func snapshotted(f *flow) *verdict {
	if f.Claim != nil || f.clone.Strategy != string(clone.Snapshot) || !f.Clone.Plan.Source.IsClaim() {
		return nil
	}
	v := &verdict{phase: cdiv1.SnapshotForSmartCloneInProgress, again: lookAgainSoon}
	v.bound = condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending, message: fmt.Sprintf("a snapshot of %s is being made", f.clone.Source)}
	switch s := f.Clone.Snapshot; {
	case s == nil && f.Refusal != nil:
		f.refuse(v, &v.bound, "a snapshot of the source", cdi.ReasonErrClaimNotValid)
	case s == nil:
		f.tell()
		f.do(action.Create{Object: newSnapshot(f.World, f.Clone.Plan)})
	case s.Status.ReadyToUse:
		return nil
	default:
		if why := f.snapshotFailed(*s); why.Reason != "" {
			return f.fallBack(why)
		}
		if s.Status.Error != nil && s.Status.Error.Message != "" {
			v.bound.message += ": " + s.Status.Error.Message
		}
	}
	return v
}

// dataSource is what the claim of a disk that the driver makes names; nil: the driver doesn't.
func (f *flow) dataSource() *corev1.TypedLocalObjectReference {
	name := f.Clone.Plan.Source.Name
	switch {
	case f.clone.Strategy == string(clone.CSIClone):
		return &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: name}
	case f.clone.Strategy != string(clone.Snapshot):
		return nil
	case f.Clone.Plan.Source.IsClaim():
		name = f.Clone.Snapshot.Name
	}
	group := clone.SnapshotClass().Group
	return &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: name}
}

// cloned makes a claim one of a clone. What the driver makes is as large as its source, and grows afterwards: drivers refuse another size, or
// leave the filesystem as it was.
func (f *flow) cloned(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	if f.across() {
		return f.handedTo(claim)
	}
	if f.clone.Strategy == "" {
		return claim
	}
	claim.Annotations[cdi.CloneType] = cloneType(f.clone.Strategy)
	if f.clone.Strategy == string(clone.HostAssisted) && f.clone.Reason != string(clone.CopyRequested) {
		claim.Annotations[cdi.CloneFallbackReason] = f.clone.Reason
	}
	if claim.Spec.DataSource = f.dataSource(); claim.Spec.DataSource != nil {
		size := f.Clone.Plan.ClaimBytes
		switch s := f.Clone.Snapshot; {
		case !f.Clone.Plan.Source.IsClaim():
			size = f.Clone.Plan.CapacityBytes
		case f.clone.Strategy == string(clone.Snapshot) && s.Status.RestoreSize != nil: // a driver may round up
			size = max(size, s.Status.RestoreSize.Value())
		}
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = *resource.NewQuantity(size, resource.BinarySI)
	}
	return claim
}

// cloneType is a strategy in CDI's words.
func cloneType(strategy string) string {
	if strategy == string(clone.HostAssisted) {
		return "copy"
	}
	return strategy
}

// readable: what is copied can be read now. A worker that is there reads it.
func readable(f *flow) *verdict {
	if !IsClone(f.DataVolume) || f.Clone == nil || f.Worker != nil || f.native() {
		return nil
	}
	plan := f.Clone.Plan
	blocking := []clone.Reason{clone.SourceNotFound, clone.SourceNotReady, clone.SourceVolumeMissing, clone.SourceVolumeMismatch, clone.SourceInUse}
	if plan.Strategy != clone.Wait || !slices.Contains(blocking, plan.Reason) {
		return nil
	}
	return &verdict{phase: cdiv1.ImportScheduled, bound: f.boundCondition(), again: refusedAgain,
		running: condition{status: corev1.ConditionFalse, reason: string(plan.Reason), message: plan.Message}}
}
