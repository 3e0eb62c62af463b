package gate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDecide(t *testing.T) {
	const rules = `-N KUBE-ROUTER-FORWARD
-A KUBE-ROUTER-FORWARD -d 10.77.1.2/32 -m comment --comment "to it" -j KUBE-POD-FW-A
-A KUBE-ROUTER-FORWARD -s 10.77.1.20/32 -m comment --comment "from it" -j KUBE-POD-FW-B
`
	tests := map[string]struct {
		wanted, have []string
		want         decision
	}{
		"a pod that the firewall has rules for is let through": {
			wanted: []string{"10.77.1.20"}, want: decision{add: []string{"10.77.1.20"}},
		},
		"a pod that has only rules for what comes to it waits": {
			wanted: []string{"10.77.1.2"}, want: decision{waiting: true},
		},
		"a pod that was let through stays so": {
			wanted: []string{"10.77.1.9"}, have: []string{"10.77.1.9"},
		},
		"an address whose pod is gone is shut out, before another pod gets it": {
			have: []string{"10.77.1.9"}, want: decision{remove: []string{"10.77.1.9"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := decide(test.wanted, test.have, rules)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddressesAreThoseOfLivingPodsWithANetworkOfTheirOwn(t *testing.T) {
	pod := func(ip string, phase corev1.PodPhase, host bool) *corev1.Pod {
		p := &corev1.Pod{}
		p.Status.PodIP, p.Status.Phase, p.Spec.HostNetwork = ip, phase, host
		return p
	}
	got := addresses([]*corev1.Pod{
		pod("10.77.2.3", corev1.PodRunning, false),
		pod("10.77.1.3", corev1.PodPending, false),
		pod("10.77.1.4", corev1.PodSucceeded, false),
		pod("10.77.0.1", corev1.PodRunning, true),
		pod("", corev1.PodPending, false),
	})
	if diff := cmp.Diff([]string{"10.77.1.3", "10.77.2.3"}, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

func TestSources(t *testing.T) {
	got := sources(`-N VMDISK-LAB
-A VMDISK-LAB -s 10.77.1.2/32 -j ACCEPT
-A VMDISK-LAB -s 10.77.2.9/32 -j ACCEPT
-A VMDISK-LAB -p udp -m udp --dport 53 -j ACCEPT
-A VMDISK-LAB -j DROP
`)
	if diff := cmp.Diff([]string{"10.77.1.2", "10.77.2.9"}, got); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}
