//go:build e2e

package e2e

import (
	"context"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vmdisk.io/vmdisk/api/v1alpha1"
)

// The report's NetworkPolicies let the import out to port 443, since its worker has the label that they select; and what they
// don't let out says that a policy may be the cause, and goes on when there is none any more.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	t.Run("the report's policies allow https", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.trustServer()
		n.reportsPolicies()
		n.reportsQuotas(diskSize)
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: secureURL(qcow2File), CertConfigMap: authorityName}))
		n.becomesReady("disk")
		n.holds("disk", diskBytes, reference(t), dataBytes(n))
	})
	t.Run("the report's policies block http", func(t *testing.T) {
		t.Parallel()
		n := newTenant(t)
		n.reportsPolicies()
		n.reportsQuotas(diskSize)
		n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
		// The lab's firewall rejects, as some do; a connection is then refused.
		n.says("disk", told, serverHost+":80", "NetworkPolicy", "DataVolume disk is ImportInProgress", "attempt 1")
		n.allow("also-http", 80, corev1.ProtocolTCP)
		n.becomesReady("disk")
		n.holds("disk", diskBytes, reference(t), -1)
	})
}

// A firewall that drops what it doesn't allow, as most do, is named within half a minute, too.
func TestFirewallThatDrops(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	route := func(ctx context.Context, verb string) {
		if out, err := exec.CommandContext(ctx, "ip", "route", verb, "blackhole", unreachable+"/32").CombinedOutput(); err != nil {
			t.Errorf("ip route %s: %v: %s", verb, err, out)
		}
	}
	route(t.Context(), "replace")
	t.Cleanup(func() { route(context.WithoutCancel(t.Context()), "del") })
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: "http://" + unreachable + "/" + qcow2File}))
	n.says("disk", told, "timed out connecting to "+unreachable+":80; a firewall or NetworkPolicy may be blocking it",
		"DataVolume disk is ImportInProgress", "attempt 1", "the next try is at")
}

// unreachable is an address that is kept for documentation (RFC 5737), so that no route to it is missed.
const unreachable = "192.0.2.77"

// reportsPolicies gives the tenant the report's policies, and lets the importer ask the DNS, as the report's cluster does.
func (n *tenant) reportsPolicies() {
	n.t.Helper()
	n.allow("allow-debian-image-download", 443, corev1.ProtocolTCP)
	n.allow("allow-dns", 53, corev1.ProtocolUDP)
	n.create(egress("allow-debian-vm-internet", map[string]string{"kubevirt.io/vm": "debian"}, 80, corev1.ProtocolTCP))
}

// allow makes a policy for importers.
func (n *tenant) allow(name string, port int32, protocol corev1.Protocol) {
	n.t.Helper()
	n.create(egress(name, map[string]string{"app": "containerized-data-importer"}, port, protocol))
}

// egress lets pods with the labels out to a port, and nowhere else.
func egress(name string, labels map[string]string, port int32, protocol corev1.Protocol) *networkingv1.NetworkPolicy {
	to := intstr.FromInt32(port)
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: labels},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		Egress:      []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &to, Protocol: &protocol}}}},
	}}
}
