package populate

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/quota"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// Line is who came before a disk in its namespace and was refused by a quota, and the quotas. Room that an older one will take is left to
// it. One that is so large that it doesn't fit holds nobody up.
type Line struct {
	Quotas []corev1.ResourceQuota
	// Claims and Workers are the older disks that have no claim, or no worker, the oldest first.
	Claims, Workers []cdiv1.DataVolume
}

// Refused says whether a disk waits for a quota: with its claim, or with its worker.
func Refused(dv *cdiv1.DataVolume) (claim, worker bool) {
	bound, _ := find(dv.Status.Conditions, cdiv1.DataVolumeBound)
	ran, _ := find(dv.Status.Conditions, cdiv1.DataVolumeRunning)
	return bound.Reason == cdi.ReasonErrExceededQuota, ran.Reason == cdi.ReasonErrExceededQuota
}

// ByAge compares two disks, the older first.
func ByAge(a, b cdiv1.DataVolume) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// claimsTurn is why the disk's claim isn't asked for yet; empty: it is.
func (f *flow) claimsTurn() string {
	var older []corev1.ResourceList
	for _, dv := range f.Line.Claims {
		if v, err := volume.Of(dv.Spec, f.Cluster); err == nil {
			older = append(older, quota.OfClaim(v.Claim))
		}
	}
	return f.turn("claim "+f.DataVolume.Name, quota.OfClaim(f.volume.Claim), older)
}

// workersTurn is why the worker isn't asked for yet; empty: it is. All workers ask for the same.
func (f *flow) workersTurn(worker *corev1.Pod) string {
	ask := quota.OfPod(worker.Spec)
	var older []corev1.ResourceList
	for range f.Line.Workers {
		older = append(older, ask)
	}
	return f.turn("the worker", ask, older)
}

// turn leaves to older ones what they will take. Who doesn't fit anyway asks the API server, whose words are the exact ones.
func (f *flow) turn(what string, ask corev1.ResourceList, older []corev1.ResourceList) string {
	room := quota.In(f.Line.Quotas)
	if quota.Scoped(f.Line.Quotas) || room.Full(ask) != nil { // what a scope chooses isn't known here: nobody may be held up by a guess
		return ""
	}
	before := 0
	for _, o := range older {
		if room.Full(o) == nil {
			room.Take(o)
			before++
		}
	}
	full := room.Full(ask)
	if full == nil {
		return ""
	}
	return fmt.Sprintf("quota %q has room for %s, but not besides what older disks of the namespace wait for (%d before it): it asks %s of %s; it goes on by itself once they have begun",
		full.Name, what, before, full.Asked, full.Hard)
}
