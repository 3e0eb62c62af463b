package clone

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/quota"
)

// snapshotCount is how a quota names the number of VolumeSnapshots.
const snapshotCount = "count/volumesnapshots.snapshot.storage.k8s.io"

// shortOf is the first quota of a namespace, by name, that has no room for what is asked; nil: there is room as far as is known.
func (c Cluster) shortOf(namespace string, asked corev1.ResourceList) *shortage {
	own := slices.DeleteFunc(slices.Clone(c.Quotas), func(q corev1.ResourceQuota) bool { return q.Namespace != namespace })
	full := quota.In(own).Full(asked)
	if full == nil {
		return nil
	}
	return &shortage{*full, namespace}
}

// shortage is a quota that has no room for something.
type shortage struct {
	cause.Quota
	namespace string
}

func (s shortage) String() string {
	return fmt.Sprintf("quota %s in namespace %s has no room for %s: %s of %s are used", s.Name, s.namespace, s.Asked, amounts(s.Used), amounts(s.Hard))
}

// amounts are those of a list such as "requests.storage=20Gi", whose names were said before.
func amounts(list string) string {
	all := strings.Split(list, ",")
	for i, one := range all {
		_, all[i], _ = strings.Cut(one, "=")
	}
	return strings.Join(all, ",")
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
	return v.cluster.shortOf(v.source.Namespace, corev1.ResourceList{snapshotCount: resource.MustParse("1")})
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
