package populate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// rendered: there is a claim, or one comes from elsewhere, or the spec says what claim to make.
func rendered(f *flow) *verdict {
	if f.Claim != nil || prePopulated(f.DataVolume) {
		return nil
	}
	err := Served(owner, f.DataVolume.Spec)
	if err == nil || f.Static != nil { // what is not to be filled needs no source
		f.volume, err = volume.Of(f.spec(), f.Cluster)
	}
	if err == nil {
		return nil
	}
	no := condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrClaimNotValid, message: err.Error()}
	return &verdict{phase: cdiv1.PhaseUnset, bound: no, ready: no.reason}
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
		if later := f.claimsTurn(); later != "" {
			v.bound = condition{status: corev1.ConditionFalse, reason: cdi.ReasonErrExceededQuota, message: later}
			v.ready, v.again = v.bound.reason, refusedAgain
			return v
		}
		f.tell()
		f.do(action.Create{Object: f.cloned(f.claim())})
		v.bound = f.pending()
	}
	return v
}

// permitted: the API server lets vmdisk change what is there. A creation's refusal belongs to the step that creates. Any other means that
// something could not be noted, so that nothing that follows from it holds: least of all that the disk is filled.
func permitted(f *flow) *verdict {
	if f.Refusal == nil {
		return nil
	}
	if _, creates := f.Refusal.Action.(action.Create); creates {
		return nil
	}
	v := &verdict{phase: cdiv1.ImportInProgress, bound: f.boundCondition()}
	if !f.owned() {
		v.phase = cdiv1.Pending
	}
	f.refuse(v, &v.running, "to "+f.Refusal.Action.String(), cdi.ReasonError)
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
	if Adoptable(f.DataVolume, f.Claim) {
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
		return nil
	}
	return &verdict{phase: cdiv1.Failed, bound: condition{status: corev1.ConditionFalse, reason: cdi.ReasonClaimLost,
		message: fmt.Sprintf("the volume of claim %s is gone, and the disk's bytes with it: delete the disk and make it again", f.Claim.Name)}}
}
