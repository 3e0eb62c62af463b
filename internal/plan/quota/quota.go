// Package quota says what a claim takes of a namespace's quotas, as the API server counts, and whether there is room for it. The API server
// decides; this is for choosing who asks it first.
package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"vmdisk.io/vmdisk/internal/plan/cause"
)

// perClass is how a quota names a class's share of a resource.
const perClass = ".storageclass.storage.k8s.io/"

// OfClaim is what a claim takes.
func OfClaim(spec corev1.PersistentVolumeClaimSpec) corev1.ResourceList {
	one, size := *resource.NewQuantity(1, resource.DecimalSI), spec.Resources.Requests[corev1.ResourceStorage]
	ask := corev1.ResourceList{
		corev1.ResourcePersistentVolumeClaims: one,
		"count/persistentvolumeclaims":        one,
		corev1.ResourceRequestsStorage:        size,
	}
	if spec.StorageClassName != nil && *spec.StorageClassName != "" {
		of := corev1.ResourceName(*spec.StorageClassName + perClass)
		ask[of+corev1.ResourcePersistentVolumeClaims] = one
		ask[of+corev1.ResourceRequestsStorage] = size
	}
	return ask
}

// OfPod is what a pod takes that leaves nothing of its resources to a LimitRange.
func OfPod(spec corev1.PodSpec) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	ask := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	add := func(name corev1.ResourceName, q resource.Quantity) {
		sum := ask[name]
		sum.Add(q)
		ask[name] = sum
	}
	for _, c := range spec.Containers {
		for name, q := range c.Resources.Requests {
			add("requests."+name, q)
			add(name, q) // a quota may name either
		}
		for name, q := range c.Resources.Limits {
			add("limits."+name, q)
		}
	}
	return ask
}

// Room is what is left in a namespace's quotas.
type Room struct{ quotas []corev1.ResourceQuota }

// In is the room that quotas leave. What the API server holds everybody to is the status' limit, which follows the spec's once usage was
// counted anew. A new quota that was never counted holds nobody yet, and a moment later it does: the spec's limit counts for it. Scopes
// choose among pods, so a quota that has some is left out.
func In(quotas []corev1.ResourceQuota) *Room {
	r := &Room{}
	for _, q := range quotas {
		if scoped(q) {
			continue
		}
		q = *q.DeepCopy()
		if len(q.Status.Hard) == 0 {
			q.Status.Hard = q.Spec.Hard
		}
		r.quotas = append(r.quotas, q)
	}
	slices.SortFunc(r.quotas, func(a, b corev1.ResourceQuota) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

// Scoped says whether some quota counts only some objects, which In leaves out.
func Scoped(quotas []corev1.ResourceQuota) bool { return slices.ContainsFunc(quotas, scoped) }

func scoped(q corev1.ResourceQuota) bool {
	return len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil
}

// Full is why there is no room for something: the first quota, by name, that has none. Nil: there is.
func (r *Room) Full(ask corev1.ResourceList) *cause.Quota {
	for _, q := range r.quotas {
		var asked, used, hard []string
		for _, name := range slices.Sorted(maps.Keys(ask)) {
			limit, limited := q.Status.Hard[name]
			after := q.Status.Used[name]
			after.Add(ask[name])
			if limited && after.Cmp(limit) > 0 {
				asked = append(asked, amount(name, ask[name]))
				used = append(used, amount(name, q.Status.Used[name]))
				hard = append(hard, amount(name, limit))
			}
		}
		if len(asked) > 0 {
			return &cause.Quota{Name: q.Name, Asked: strings.Join(asked, ","), Used: strings.Join(used, ","), Hard: strings.Join(hard, ",")}
		}
	}
	return nil
}

// Take counts something as used.
func (r *Room) Take(ask corev1.ResourceList) {
	for i := range r.quotas {
		used := r.quotas[i].Status.Used
		if used == nil {
			used = corev1.ResourceList{}
			r.quotas[i].Status.Used = used
		}
		for name, q := range ask {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
}

func amount(name corev1.ResourceName, q resource.Quantity) string {
	return fmt.Sprintf("%s=%s", name, q.String())
}
