package populator

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/plan/cause"
)

// waits is a target that came so many minutes after the first, and asks so many GiB.
func waits(uid types.UID, namespace string, minute, gib int) Waiting {
	w := Waiting{UID: uid, Namespace: namespace, Since: time.Unix(0, 0).Add(time.Duration(minute) * time.Minute)}
	w.Claim.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", gib))}
	return w
}

func storage(hard, used string) corev1.ResourceQuota {
	q := quotaOf("100", "0")
	q.Status.Hard[corev1.ResourceRequestsStorage], q.Status.Used[corev1.ResourceRequestsStorage] = resource.MustParse(hard), resource.MustParse(used)
	return q
}

func TestTheOrderIsFairBetweenNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		line Line
		want []types.UID
	}{
		"within one, the oldest first": {
			Line{Waiting: []Waiting{waits("b", "x", 2, 1), waits("a", "x", 1, 1), waits("c", "x", 3, 1)}}, []types.UID{"a", "b", "c"},
		},
		"a namespace with many doesn't hold up one with few": {
			Line{Waiting: []Waiting{waits("a", "x", 1, 1), waits("b", "x", 2, 1), waits("c", "x", 3, 1), waits("d", "y", 4, 1)}}, []types.UID{"a", "d", "b", "c"},
		},
		"what runs counts": {
			Line{Running: []Running{{Namespace: "x"}, {Namespace: "x"}}, Waiting: []Waiting{waits("a", "x", 1, 1), waits("b", "y", 2, 1), waits("c", "y", 3, 1), waits("d", "y", 4, 1)}}, []types.UID{"b", "c", "a", "d"},
		},
		"of one age, the same order every time": {
			Line{Waiting: []Waiting{waits("b", "y", 1, 1), waits("a", "x", 1, 1)}}, []types.UID{"a", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []types.UID
			for _, w := range c.line.fair() {
				got = append(got, w.UID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTurns(t *testing.T) {
	full := &cause.Quota{Name: "populators", Asked: "requests.storage=20Gi", Used: "requests.storage=5Gi", Hard: "requests.storage=10Gi"}
	for name, c := range map[string]struct {
		line Line
		want map[types.UID]Turn
	}{
		"without a quota all begin": {
			Line{Waiting: []Waiting{waits("a", "x", 1, 20), waits("b", "x", 2, 20)}}, map[types.UID]Turn{"a": {Now: true}, "b": {Now: true}},
		},
		"a small one passes a large one that doesn't fit": {
			Line{Quotas: []corev1.ResourceQuota{storage("10Gi", "5Gi")}, Waiting: []Waiting{waits("a", "x", 1, 20), waits("b", "x", 2, 5)}},
			map[types.UID]Turn{"a": {Place: 1, Of: 1, Full: full}, "b": {Now: true, Of: 1}},
		},
		"but doesn't take what an older one will": {
			Line{Quotas: []corev1.ResourceQuota{storage("10Gi", "5Gi")}, Waiting: []Waiting{waits("a", "x", 1, 5), waits("b", "x", 2, 5)}},
			map[types.UID]Turn{"a": {Now: true, Of: 1}, "b": {Place: 1, Of: 1, Full: &cause.Quota{Name: "populators", Asked: "requests.storage=5Gi", Used: "requests.storage=10Gi", Hard: "requests.storage=10Gi"}}},
		},
		"one that has begun, and has no claim yet, takes its room": {
			Line{Quotas: []corev1.ResourceQuota{storage("20Gi", "0")}, Running: []Running{{Namespace: "y", Claim: new(waits("", "", 0, 15).Claim)}}, Waiting: []Waiting{waits("a", "x", 1, 5), waits("b", "x", 2, 20)}},
			map[types.UID]Turn{"a": {Now: true, Of: 1}, "b": {Place: 1, Of: 1, Full: &cause.Quota{Name: "populators", Asked: "requests.storage=20Gi", Used: "requests.storage=20Gi", Hard: "requests.storage=20Gi"}}},
		},
		"who isn't in the line doesn't begin": {Line{}, map[types.UID]Turn{"a": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			for uid, want := range c.want {
				if diff := cmp.Diff(want, c.line.Of(uid)); diff != "" {
					t.Errorf("%s: %s", uid, diff)
				}
			}
		})
	}
}

func TestTheClustersOwnAddressesAreKnown(t *testing.T) {
	node := corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-a"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.7"}, {Type: corev1.NodeInternalIP, Address: "2001:db8::7"}}
	got := ClusterRanges([]corev1.Node{node, node}, []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}}}})
	if diff := cmp.Diff([]string{"10.244.0.0/24", "10.96.0.0/12", "2001:db8::7/128", "203.0.113.7/32"}, got); diff != "" {
		t.Error(diff)
	}
}
