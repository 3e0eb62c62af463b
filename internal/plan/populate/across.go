package populate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/rebind"
)

// Away is what was seen of a disk that is made from a volume of another namespace: a DataVolume there makes it, as any clone within a namespace, and
// its volume is handed to the claim. What doesn't exist is nil.
type Away struct {
	// Namespace is the source's.
	Namespace  string
	DataVolume *cdiv1.DataVolume
	// Claim is the DataVolume's.
	Claim *corev1.PersistentVolumeClaim
	// Volume is the one that is marked for the disk's claim, or else the DataVolume's.
	Volume *corev1.PersistentVolume
	Class  *storagev1.StorageClass
}

// AwayName is the name of the DataVolume that makes a volume for a claim of another namespace.
func AwayName(claim types.UID) string { return "clone-" + string(claim) }

// Handed says whether a claim waits for a volume that is made in another namespace.
func Handed(claim *corev1.PersistentVolumeClaim) bool {
	ref := claim.Spec.DataSourceRef
	return ref != nil && ref.Kind == cdi.CloneSourceKind && ref.APIGroup != nil && *ref.APIGroup == cdi.Group
}

// across says whether the source is in another namespace.
func (f *flow) across() bool {
	return f.Clone != nil && !f.Clone.Plan.Source.IsZero() && f.Clone.Plan.Source.Namespace != f.DataVolume.Namespace
}

// handedTo makes a claim one that no provisioner makes a volume for.
func (f *flow) handedTo(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	group := cdi.Group
	claim.Annotations[cdi.UsePopulator] = "true"
	claim.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: cdi.CloneSourceKind, Name: f.DataVolume.Name}
	return claim
}

// moveAgain is how often a volume is looked at that is on its way.
const moveAgain = time.Second

// away: the claim's volume is not one that is made in another namespace.
func away(f *flow) *verdict {
	if !f.owned() || !Handed(f.Claim) {
		return nil
	}
	if f.Away == nil { // where it is made is not known: it was made without us, or its source can't be told any more
		return &verdict{phase: cdiv1.CloneScheduled, bound: f.pending(), again: refusedAgain}
	}
	a := f.Away
	v := &verdict{phase: cdiv1.CloneScheduled, bound: f.awayCondition()}
	switch {
	case f.Claim.Spec.VolumeName != "" || rebind.Begun(a.Volume, f.Claim.UID):
		return f.handed()
	case f.volume.WaitsForConsumer() && !f.immediate() && f.Claim.Annotations[selectedNode] == "":
		v.phase = cdiv1.PendingPopulation
		v.bound.message = fmt.Sprintf("PVC %s Pending: StorageClass %s makes its volume when the first pod or virtual machine uses it", f.Claim.Name, f.volume.Class.Name)
	case a.DataVolume == nil && a.Claim != nil, a.DataVolume != nil && a.DataVolume.DeletionTimestamp != nil:
		f.do(rebind.Undo(f.move())...)
		v.again = moveAgain
	case a.DataVolume == nil && f.Refusal != nil:
		f.refuse(v, &v.bound, fmt.Sprintf("the disk that is made in namespace %s", a.Namespace), cdi.ReasonErrClaimNotValid)
		v.ready = v.bound.reason
	case a.DataVolume == nil:
		f.do(action.Create{Object: newAway(f)})
	case a.DataVolume.Status.Phase == cdiv1.Succeeded && a.Claim != nil && a.Claim.Annotations[cdi.PopulatedFor] == a.DataVolume.Name:
		return f.handed()
	default:
		return f.mirrored()
	}
	return v
}

// mirrored is what the DataVolume in the source's namespace says.
func (f *flow) mirrored() *verdict {
	dv := f.Away.DataVolume
	f.clone = World{DataVolume: dv}.told()
	f.tell()
	f.memory.Attempts = dv.Status.RestartCount
	v := &verdict{phase: dv.Status.Phase, bound: f.awayCondition(), progress: string(dv.Status.Progress)}
	if v.phase == cdiv1.PhaseUnset || v.phase == cdiv1.Pending || v.phase == cdiv1.Succeeded || v.phase == cdiv1.WaitForFirstConsumer {
		v.phase = cdiv1.CloneScheduled
	}
	if c, ok := find(dv.Status.Conditions, cdiv1.DataVolumeRunning); ok {
		v.running = condition{status: c.Status, reason: c.Reason, message: c.Message}
	}
	if c, ok := find(dv.Status.Conditions, cdiv1.DataVolumeBound); ok && c.Status != corev1.ConditionTrue && c.Message != "" {
		v.bound.reason, v.bound.message = c.Reason, fmt.Sprintf("in namespace %s: %s", f.Away.Namespace, c.Message)
	}
	return v
}

// handed is a step of handing the volume over. Once the claim has it, it is marked as filled.
func (f *flow) handed() *verdict {
	move := rebind.Plan(f.move())
	v := &verdict{phase: cdiv1.RebindInProgress, bound: f.awayCondition(), progress: "99.99%", again: moveAgain}
	v.running = condition{status: corev1.ConditionFalse, reason: cdi.ReasonPending, message: move.Message}
	switch move.State {
	case rebind.Moved:
		f.do(f.mark())
		v.running.message = ""
	case rebind.Lost:
		f.do(rebind.Undo(f.move())...)
		v.phase, v.progress, v.running.message = cdiv1.CloneScheduled, "", move.Message+": the disk is made again from the beginning"
	case rebind.Elsewhere, rebind.Impossible:
		f.do(move.Actions...)
		v.phase, v.progress, v.again = cdiv1.Failed, "", 0
		v.running = condition{status: corev1.ConditionFalse, reason: cdi.ReasonError, message: move.Message}
	default:
		f.do(move.Actions...)
	}
	return v
}

// move is the handing over.
func (f *flow) move() rebind.World {
	m := rebind.World{Target: f.Claim, Temporary: f.Away.Claim, Volume: f.Away.Volume, Class: f.Away.Class}
	if f.Away.DataVolume != nil {
		m.Keeper = f.Away.DataVolume
	}
	return m
}

// awayCondition is the state of a claim that waits for its volume to be made elsewhere.
func (f *flow) awayCondition() condition {
	if f.Claim.Status.Phase == corev1.ClaimBound {
		return f.boundCondition()
	}
	return condition{corev1.ConditionFalse, cdi.ReasonPending, fmt.Sprintf("PVC %s Pending: its volume is made in namespace %s, where its source is, and then handed to it", f.Claim.Name, f.Away.Namespace)}
}

// newAway is the DataVolume that makes the volume: what the claim is, from the same source, within its namespace. It is nobody's property, since an
// owner must be of the same namespace; it goes when the volume has been handed over, or the claim is gone.
func newAway(f *flow) *cdiv1.DataVolume {
	asked := f.spec()
	spec := *asked.DeepCopy()
	claim := f.Claim.Spec
	if spec.Storage != nil {
		spec.Storage.StorageClassName, spec.Storage.AccessModes, spec.Storage.VolumeMode = claim.StorageClassName, claim.AccessModes, claim.VolumeMode
	}
	if spec.PVC != nil {
		spec.PVC.StorageClassName = claim.StorageClassName
	}
	spec.SourceRef, spec.ServiceAccountName = nil, ""
	source := f.Clone.Plan.Source
	spec.Source = &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Namespace: source.Namespace, Name: source.Name}}
	dv := &cdiv1.DataVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: cdiv1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Away.Namespace, Name: AwayName(f.Claim.UID),
			Labels: map[string]string{v1alpha1.ClonesLabel: string(f.Claim.UID)},
			Annotations: map[string]string{
				v1alpha1.TargetAnnotation: f.Claim.Namespace + "/" + f.Claim.Name,
				cdi.BindImmediate:         "", // the disk's own consumer has been waited for
			},
		},
		Spec: spec,
	}
	if plain := f.DataVolume.Annotations[cdi.UsePopulator]; plain == "false" { // a copy is asked for, wherever it is made
		dv.Annotations[cdi.UsePopulator] = plain
	}
	if node := f.Claim.Annotations[selectedNode]; node != "" {
		dv.Annotations[v1alpha1.SelectedNodeAnnotation] = node
	}
	if p := f.DataVolume.Annotations[v1alpha1.PlacementAnnotation]; p != "" {
		dv.Annotations[v1alpha1.PlacementAnnotation] = p
	}
	return dv
}
