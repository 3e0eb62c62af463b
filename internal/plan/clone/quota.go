package clone

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"vmdisk.io/vmdisk/internal/plan/quota"
)

// shortage is a quota that has no room for something.
type shortage struct {
	quota, namespace  string
	what              corev1.ResourceName
	asked, used, hard resource.Quantity
}

func (s shortage) String() string {
	return fmt.Sprintf("quota %s in namespace %s has no room for %s=%s: %s of %s are used", s.quota, s.namespace, s.what, s.asked.String(), s.used.String(), s.hard.String())
}

// shortOf is the first quota of a namespace, by name, that has no room for what is asked; nil: there is room as far as is known.
func (c Cluster) shortOf(namespace string, asked corev1.ResourceList) *shortage {
	var all []shortage
	for _, q := range c.Quotas {
		if q.Namespace != namespace || len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil { // scopes choose among pods
			continue
		}
		for what, more := range asked {
			hard, limited := q.Spec.Hard[what]
			used := q.Status.Used[what]
			sum := used.DeepCopy()
			sum.Add(more)
			if limited && sum.Cmp(hard) > 0 {
				all = append(all, shortage{q.Name, namespace, what, more, used, hard})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, func(a, b shortage) int { return cmp.Or(cmp.Compare(a.quota, b.quota), cmp.Compare(a.what, b.what)) })
	return &first
}

// quotaExceeded: the snapshot is made in the source's namespace, and counts there.
func quotaExceeded(v view, s Strategy) (Reason, string) {
	if s != Snapshot || v.source.kind == snapshotSource {
		return "", ""
	}
	if short := v.shortOfSnapshots(); short != nil {
		return QuotaExceeded, short.String()
	}
	return "", ""
}

func (v view) shortOfSnapshots() *shortage {
	return v.cluster.shortOf(v.source.Namespace, corev1.ResourceList{"count/volumesnapshots.snapshot.storage.k8s.io": resource.MustParse("1")})
}

// noRoom: the disk's claim counts in its own namespace. Across namespaces a claim of the same size counts in the source's, too, until the
// disk is made, whatever the strategy. That one is made when the consumer's node is known.
func noRoom(v view) *Plan {
	claim := v.claimed()
	short := v.cluster.shortOf(v.request.Namespace, claim)
	if short == nil && !v.waitsForConsumer() {
		short = v.cluster.shortOf(v.source.Namespace, claim)
	}
	if short == nil {
		return nil
	}
	return v.then(wait(QuotaExceeded, "%s; the disk is made once the quota is raised or something else is deleted", short))
}

// claimed is what a claim of the disk's size and class counts for in a quota.
func (v view) claimed() corev1.ResourceList {
	claim := corev1.PersistentVolumeClaimSpec{StorageClassName: &v.class.Name}
	claim.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(v.targetBytes(), resource.BinarySI)}
	return quota.OfClaim(claim)
}
