package profile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
)

func TestPinned(t *testing.T) {
	node := func(name string, labels map[string]string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	in := func(zone string) map[string]string { return map[string]string{"zone": zone} }
	plain := []corev1.Node{node("a", nil), node("b", nil)}
	zones := []corev1.Node{node("a", in("1")), node("b", in("2"))}
	access := func(value string) map[string]string {
		return map[string]string{linstor.Driver + "/allowRemoteVolumeAccess": value}
	}
	const data = "on the nodes that hold its data"
	for name, c := range map[string]struct {
		provisioner string
		parameters  map[string]string
		nodes       []corev1.Node
		want        string
	}{
		"a driver of nodes' own disks":                     {"rancher.io/local-path", nil, plain, "on one node"},
		"where there is one node, it is every node":        {"rancher.io/local-path", nil, plain[:1], ""},
		"a driver that goes over the network":              {"rbd.csi.ceph.com", nil, plain, ""},
		"a driver that isn't known":                        {"plain.csi.lab", nil, plain, ""},
		"LINSTOR, replicated":                              {linstor.Driver, nil, plain, ""},
		"LINSTOR without remote access":                    {linstor.Driver, access("false"), plain, data},
		"LINSTOR without a layer for the network":          {linstor.Driver, map[string]string{"layerList": "STORAGE"}, plain, data},
		"LINSTOR within a zone":                            {linstor.Driver, access("- fromSame: [zone]"), zones, "on nodes with the same zone as its data"},
		"where all nodes are in that zone":                 {linstor.Driver, access("- fromSame: [zone]"), []corev1.Node{node("a", in("1")), node("b", in("1"))}, ""},
		"where a node has no zone, it may be from all":     {linstor.Driver, access("- fromSame: [zone]"), []corev1.Node{node("a", in("1")), node("b", nil)}, ""},
		"LINSTOR on the node itself or within a zone":      {linstor.Driver, access("- fromSame: [" + linstor.Hostname + "]\n- fromSame: [zone]"), zones, "on nodes with the same zone as its data"},
		"LINSTOR, one rule of which allows all":            {linstor.Driver, access("- fromSame: [zone]\n- {}"), zones, ""},
		"LINSTOR with parameters that can't be read":       {linstor.Driver, map[string]string{"allowRemoteVolumeAccess": "false", "colour": "red"}, plain, ""},
		"LINSTOR with parameters that say opposite things": {linstor.Driver, map[string]string{"allowRemoteVolumeAccess": "false", "AllowRemoteVolumeAccess": "true"}, plain, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Pinned(&storagev1.StorageClass{Provisioner: c.provisioner, Parameters: c.parameters}, c.nodes); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
