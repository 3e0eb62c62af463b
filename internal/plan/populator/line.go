package populator

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/quota"
)

// Line is who wants to be filled in the populator's namespace, who is being filled there, and the quotas that limit it.
type Line struct {
	Waiting []Waiting
	Running []Running
	Quotas  []corev1.ResourceQuota
}

// Waiting is a target that could begin at once.
type Waiting struct {
	UID       types.UID
	Namespace string
	// Since is when it came, or when it last gave its place up.
	Since time.Time
	Claim corev1.PersistentVolumeClaimSpec
}

// Running is a target that is being filled.
type Running struct {
	Namespace string
	// Claim is what its temporary claim takes, where that isn't made yet, and so not counted by any quota.
	Claim *corev1.PersistentVolumeClaimSpec
}

// Turn is where a target stands.
type Turn struct {
	// Now says that it may begin.
	Now bool
	// Place is its place among those that must wait, from 1. Of is how many those are, for whomever asks.
	Place, Of int
	// Full is the quota that has no room for it.
	Full *cause.Quota
}

// Of is a target's turn. The order is fair (see fair); whoever finds room begins, so that a small one passes a large one that doesn't fit.
func (l Line) Of(target types.UID) Turn {
	room := quota.In(l.Quotas)
	for _, r := range l.Running {
		if r.Claim != nil {
			room.Take(quota.OfClaim(*r.Claim))
		}
	}
	turn := Turn{Now: slices.ContainsFunc(l.Waiting, func(w Waiting) bool { return w.UID == target })}
	for _, w := range l.fair() {
		full := room.Full(quota.OfClaim(w.Claim))
		if full == nil {
			room.Take(quota.OfClaim(w.Claim))
			continue
		}
		turn.Of++
		if w.UID == target {
			turn.Now, turn.Place, turn.Full = false, turn.Of, full
		}
	}
	return turn
}

// Crowded says whether somebody must wait.
func (l Line) Crowded() bool { return l.Of("").Of > 0 }

// fair is the line in the order of beginning: of the namespaces, the one with the fewest that run or stand before it; within one, the oldest.
func (l Line) fair() []Waiting {
	left := slices.Clone(l.Waiting)
	slices.SortFunc(left, func(a, b Waiting) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.UID, b.UID)) })
	has := map[string]int{}
	for _, r := range l.Running {
		has[r.Namespace]++
	}
	var order []Waiting
	for len(left) > 0 {
		next := 0
		for i, w := range left {
			if has[w.Namespace] < has[left[next].Namespace] {
				next = i
			}
		}
		has[left[next].Namespace]++
		order = append(order, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return order
}

// Lacks says whether a target was last seen to lack an input. Then it holds nobody up, but looks now and then.
func Lacks(target *corev1.PersistentVolumeClaim) bool {
	return population(target) == reasonInputMissing
}

// WaitingOf is a target's place to be; false where something else than its turn is in the way.
func WaitingOf(w World) (Waiting, bool) {
	t := w.Target
	if t == nil || t.DeletionTimestamp != nil || w.bound() || w.begun() || w.DataVolume != nil {
		return Waiting{}, false
	}
	f := &flow{World: w}
	for _, step := range []func(*flow) *verdict{local, sourced, possible, wanted} {
		if step(f) != nil {
			return Waiting{}, false
		}
	}
	since := t.CreationTimestamp.Time
	if yielded, err := time.Parse(time.RFC3339, t.Annotations[v1alpha1.YieldedAnnotation]); err == nil {
		since = yielded
	}
	return Waiting{UID: t.UID, Namespace: t.Namespace, Since: since, Claim: claimOf(t)}, true
}
