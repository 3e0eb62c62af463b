// Package dns answers the names of a cluster's Services, and says at once that any other name doesn't exist: it has no
// upstream, so that a test of a host name that can't be resolved takes milliseconds. It knows Services and
// EndpointSlices, and must not know who asks, nor anything of vmdisk.
package dns

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Source is what the zone is made of at this moment, usually the stores of two informers.
type Source interface {
	// Service returns nil if there is none of that name.
	Service(namespace, name string) *corev1.Service
	// Slices are the endpoints of a Service.
	Slices(namespace, service string) []*discoveryv1.EndpointSlice
	// HasNamespace reports whether the namespace holds any Service.
	HasNamespace(namespace string) bool
}

// Record is what a name stands for. A name that exists may well have no address (an IPv6-only Service, a headless one
// without pods, a namespace).
type Record struct {
	Exists    bool
	Addresses []netip.Addr // IPv4, sorted, each once
	Alias     string       // of an ExternalName Service: the name to ask for instead
}

// Zone holds the names under one domain.
type Zone struct {
	Domain string // for example cluster.local, without dots at its ends
	Source Source
}

// Lookup finds a name; upper and lower case are one, and a dot at the end doesn't matter. The names are those of the
// specification "Kubernetes DNS-Based Service Discovery", version 1.1.0:
//
//	SERVICE.NAMESPACE.svc.DOMAIN           the Service's own address; if it is headless, those of its ready pods
//	HOSTNAME.SERVICE.NAMESPACE.svc.DOMAIN  one pod of a headless Service
func (z Zone) Lookup(name string) Record {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	inside, ok := strings.CutSuffix("."+name, "."+z.Domain)
	if !ok {
		return Record{}
	}
	labels := strings.Split(strings.TrimPrefix(inside, "."), ".")
	if inside == "" {
		return Record{Exists: true} // the domain itself
	}
	if labels[len(labels)-1] != "svc" {
		return Record{}
	}
	labels = labels[:len(labels)-1]
	switch len(labels) {
	case 0:
		return Record{Exists: true}
	case 1:
		return Record{Exists: z.Source.HasNamespace(labels[0])}
	case 2:
		return z.service(labels[1], labels[0])
	case 3:
		return z.endpoint(labels[2], labels[1], labels[0])
	default:
		return Record{}
	}
}

func (z Zone) service(namespace, name string) Record {
	service := z.Source.Service(namespace, name)
	switch {
	case service == nil:
		return Record{}
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return Record{Exists: true, Alias: service.Spec.ExternalName}
	case service.Spec.ClusterIP == corev1.ClusterIPNone:
		return Record{Exists: true, Addresses: z.endpoints(namespace, name, func(discoveryv1.Endpoint) bool { return true })}
	default:
		return Record{Exists: true, Addresses: parse(service.Spec.ClusterIPs)}
	}
}

func (z Zone) endpoint(namespace, name, hostname string) Record {
	service := z.Source.Service(namespace, name)
	if service == nil || service.Spec.ClusterIP != corev1.ClusterIPNone {
		return Record{}
	}
	addresses := z.endpoints(namespace, name, func(e discoveryv1.Endpoint) bool {
		if e.Hostname != nil {
			return *e.Hostname == hostname
		}
		return slices.ContainsFunc(e.Addresses, func(a string) bool { return strings.ReplaceAll(a, ".", "-") == hostname })
	})
	return Record{Exists: len(addresses) > 0, Addresses: addresses}
}

// endpoints are the addresses of a Service's ready endpoints that are wanted.
func (z Zone) endpoints(namespace, service string, wanted func(discoveryv1.Endpoint) bool) []netip.Addr {
	var found []string
	for _, slice := range z.Source.Slices(namespace, service) {
		for _, endpoint := range slice.Endpoints {
			ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready // nil counts as ready: API reference
			if ready && wanted(endpoint) {
				found = append(found, endpoint.Addresses...)
			}
		}
	}
	return parse(found)
}

func parse(texts []string) []netip.Addr {
	var addresses []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil && address.Is4() {
			addresses = append(addresses, address)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses)
}
