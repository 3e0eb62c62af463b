package profile

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
)

// Pinned says on which of a cluster's nodes alone a volume of a class can be used, such as "on one node"; empty: on all, as far as is
// known. LINSTOR's classes say it themselves; of other drivers the table knows which keep a volume on one node.
func Pinned(class *storagev1.StorageClass, nodes []corev1.Node) string {
	switch {
	case len(nodes) < 2:
		return ""
	case class.Provisioner == linstor.Driver:
		return pinnedByLINSTOR(linstor.Parse(class.Parameters), nodes)
	case NodeLocal(class.Provisioner):
		return "on one node"
	default:
		return ""
	}
}

// pinnedByLINSTOR reads the rules of a class, of which one is enough to reach a volume. Of a class that makes no volumes, or whose
// parameters contradict each other, nothing is known.
func pinnedByLINSTOR(p linstor.Parameters, nodes []corev1.Node) string {
	if p.Invalid != "" || p.Conflict != "" || p.Access.Anywhere {
		return ""
	}
	var shared []string
	for _, rule := range p.Access.Rules {
		switch {
		case slices.Contains(rule, linstor.Hostname):
		case divides(rule, nodes):
			shared = append(shared, strings.Join(rule, " and "))
		default:
			return ""
		}
	}
	if len(shared) == 0 {
		return "on the nodes that hold its data"
	}
	return "on nodes with the same " + strings.Join(shared, ", or ") + " as its data"
}

// divides says whether labels are known to part the nodes: each node has them all, and not all have the same values. LINSTOR drops a
// label that the data's node lacks.
func divides(labels []string, nodes []corev1.Node) bool {
	values := map[string]bool{}
	for _, n := range nodes {
		var of []string
		for _, l := range labels {
			value, ok := n.Labels[l]
			if !ok {
				return false
			}
			of = append(of, value)
		}
		values[strings.Join(of, "\n")] = true
	}
	return len(values) > 1
}
