package clone

import (
	"slices"
	"strings"
)

// All are the requests that are found in a cluster: each VMDisk, and each DataVolume that is made from another volume and belongs to no
// VMDisk and is not itself what another one is made from. Where there is none of these, each DataVolume.
func All(cluster Cluster, options Options) []Request {
	var found []Request
	for _, disk := range cluster.Disks {
		found = append(found, OfDisk(disk, cluster, options))
	}
	var others []Request
	for _, dv := range cluster.DataVolumes {
		r := OfDataVolume(dv, cluster)
		if !slices.ContainsFunc(found, func(o Request) bool { return o.Namespace == r.Namespace && o.Name == r.Name }) {
			others = append(others, r)
		}
	}
	isSource := func(r Request) bool {
		return slices.ContainsFunc(slices.Concat(found, others), func(o Request) bool {
			return o.Source == Source{claimSource, r.Namespace, r.Name}
		})
	}
	for _, r := range others {
		if r.Source.kind != noSource && !isSource(r) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		found = others
	}
	slices.SortFunc(found, func(a, b Request) int { return strings.Compare(a.String(), b.String()) })
	return found
}

// Named are the requests of that name: a VMDisk, and otherwise a DataVolume.
func Named(cluster Cluster, options Options, namespace, name string) (Request, bool) {
	for _, disk := range cluster.Disks {
		if disk.Namespace == namespace && disk.Name == name {
			return OfDisk(disk, cluster, options), true
		}
	}
	if dv := cluster.dataVolume(namespace, name); dv != nil {
		return OfDataVolume(*dv, cluster), true
	}
	return Request{}, false
}
