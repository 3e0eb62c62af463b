package dns

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// static is a Source of fixed content.
type static struct {
	services map[string]*corev1.Service
	slices   map[string][]*discoveryv1.EndpointSlice
}

func (s static) Service(namespace, name string) *corev1.Service {
	return s.services[namespace+"/"+name]
}

func (s static) Slices(namespace, name string) []*discoveryv1.EndpointSlice {
	return s.slices[namespace+"/"+name]
}

func (s static) HasNamespace(namespace string) bool { return namespace == "default" }

func service(kind corev1.ServiceType, ip, alias string) *corev1.Service {
	s := &corev1.Service{}
	s.Spec.Type, s.Spec.ClusterIP, s.Spec.ExternalName = kind, ip, alias
	if ip != "" {
		s.Spec.ClusterIPs = []string{ip}
	}
	return s
}

func zone() Zone {
	yes, no, web0 := true, false, "web-0"
	return Zone{Domain: "cluster.local", Source: static{
		services: map[string]*corev1.Service{
			"default/kubernetes": service(corev1.ServiceTypeClusterIP, "10.96.0.1", ""),
			"default/web":        service(corev1.ServiceTypeClusterIP, corev1.ClusterIPNone, ""),
			"default/elsewhere":  service(corev1.ServiceTypeExternalName, "", "example.org"),
			"default/six":        service(corev1.ServiceTypeClusterIP, "fd00::1", ""),
		},
		slices: map[string][]*discoveryv1.EndpointSlice{"default/web": {{Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.77.1.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &yes}},
			{Addresses: []string{"10.77.1.3"}, Hostname: &web0},
			{Addresses: []string{"10.77.1.4"}, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
		}}}},
	}}
}

func addresses(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func TestLookup(t *testing.T) {
	tests := map[string]struct {
		name string
		want Record
	}{
		"a Service has its own address":                    {"kubernetes.default.svc.cluster.local.", Record{Exists: true, Addresses: addresses("10.96.0.1")}},
		"upper case is the same name":                      {"Kubernetes.DEFAULT.svc.cluster.local", Record{Exists: true, Addresses: addresses("10.96.0.1")}},
		"a headless Service has those of its ready pods":   {"web.default.svc.cluster.local.", Record{Exists: true, Addresses: addresses("10.77.1.3", "10.77.1.9")}},
		"a pod of it by its hostname":                      {"web-0.web.default.svc.cluster.local.", Record{Exists: true, Addresses: addresses("10.77.1.3")}},
		"a pod of it by its address":                       {"10-77-1-9.web.default.svc.cluster.local.", Record{Exists: true, Addresses: addresses("10.77.1.9")}},
		"an ExternalName Service is an alias":              {"elsewhere.default.svc.cluster.local.", Record{Exists: true, Alias: "example.org"}},
		"an IPv6 Service exists without an address":        {"six.default.svc.cluster.local.", Record{Exists: true}},
		"a namespace exists without an address":            {"default.svc.cluster.local.", Record{Exists: true}},
		"the domain exists without an address":             {"cluster.local.", Record{Exists: true}},
		"an unknown Service does not exist":                {"nothing.default.svc.cluster.local.", Record{}},
		"a name outside does not exist":                    {"cloud.debian.org.", Record{}},
		"a name that only ends like the domain is outside": {"notcluster.local.", Record{}},
		"an outside name with the search domain behind":    {"cloud.debian.org.default.svc.cluster.local.", Record{}},
		"there are no names of pods but through a Service": {"10-77-1-9.default.pod.cluster.local.", Record{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := zone().Lookup(test.name)
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	type outcome struct {
		RCode     dnsmessage.RCode
		Truncated bool
		Answers   int
	}
	tests := map[string]struct {
		name  string
		kind  dnsmessage.Type
		limit int
		want  outcome
	}{
		"an address":                                {"kubernetes.default.svc.cluster.local.", dnsmessage.TypeA, 512, outcome{Answers: 1}},
		"no IPv6 address is no error":               {"kubernetes.default.svc.cluster.local.", dnsmessage.TypeAAAA, 512, outcome{}},
		"an alias":                                  {"elsewhere.default.svc.cluster.local.", dnsmessage.TypeA, 512, outcome{Answers: 1}},
		"a name that doesn't exist":                 {"cloud.debian.org.", dnsmessage.TypeA, 512, outcome{RCode: dnsmessage.RCodeNameError}},
		"an answer that is too long for UDP is cut": {"web.default.svc.cluster.local.", dnsmessage.TypeA, 60, outcome{Truncated: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			question := dnsmessage.Message{
				Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
				Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(test.name), Type: test.kind, Class: dnsmessage.ClassINET}},
			}
			packed, err := question.Pack()
			if err != nil {
				t.Fatal(err)
			}
			answer, err := Answer(zone(), packed, test.limit)
			if err != nil {
				t.Fatal(err)
			}
			var got dnsmessage.Message
			if err := got.Unpack(answer); err != nil {
				t.Fatal(err)
			}
			if got.ID != 7 || !got.Response {
				t.Errorf("the answer does not belong to the question: %+v", got.Header)
			}
			if diff := cmp.Diff(test.want, outcome{got.RCode, got.Truncated, len(got.Answers)}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.name, diff)
			}
		})
	}
}

func TestAnswerRefusesWhatIsNoQuestion(t *testing.T) {
	for name, packet := range map[string][]byte{
		"nothing":             {},
		"half a header":       {0, 1, 0},
		"a header without it": make([]byte, 12),
		"an answer":           {0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if answer, err := Answer(zone(), packet, 512); err == nil {
				t.Errorf("it was answered with %x", answer)
			}
		})
	}
}
