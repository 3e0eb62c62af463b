package populator

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// ClusterRanges are the addresses of a cluster's own nodes, pods and services, which need not be private ones.
func ClusterRanges(nodes []corev1.Node, services []networkingv1.ServiceCIDR) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Spec.PodCIDRs...)
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil { // others are names
				all = append(all, netip.PrefixFrom(ip, ip.BitLen()).String())
			}
		}
	}
	for _, s := range services {
		all = append(all, s.Spec.CIDRs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
