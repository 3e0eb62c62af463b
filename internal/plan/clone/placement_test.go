package clone

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestPlacement(t *testing.T) {
	capacity := func(topology, fields string) string {
		return "apiVersion: storage.k8s.io/v1\nkind: CSIStorageCapacity\nmetadata: {name: c, namespace: s}\nnodeTopology: {matchLabels: {linbit.com/hostname: " + topology + "}}\n" + fields
	}
	clone := func(name, node string) string {
		return "---\napiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\nmetadata: {name: " + name + ", namespace: t}\nspec: {source: {pvc: {namespace: cozy-public, name: vm-default-images-ubuntu}}}\n" +
			"---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name + ", namespace: t}\nspec: {volumeName: pv-" + name + "}\n" +
			"---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv-" + name + "}\nspec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: linbit.com/hostname, operator: In, values: [" + node + "]}]}]}}}\n"
	}
	prefer := func(p ...Preference) []Preference { return p }
	for name, c := range map[string]struct {
		base string
		args []string
		add  string
		want Placement
	}{
		"one node is no choice":                       {base: "I-01", add: capacity("node-a", "storageClassName: local\ncapacity: 1Ti"), want: Placement{Required: []string{"node-a"}}},
		"of two nodes that are alike neither":         {base: "I-04", want: Placement{Required: []string{"node-a", "node-b"}}},
		"the node with room":                          {base: "I-04", add: capacity("node-b", "storageClassName: local\ncapacity: 20Gi"), want: Placement{[]string{"node-a", "node-b"}, prefer(Preference{"node-b", 50})}},
		"not the one with too little":                 {base: "I-04", add: capacity("node-b", "storageClassName: local\ncapacity: 19Gi"), want: Placement{Required: []string{"node-a", "node-b"}}},
		"nor the one that makes no volume that large": {base: "I-04", add: capacity("node-b", "storageClassName: local\ncapacity: 90Gi\nmaximumVolumeSize: 19Gi"), want: Placement{Required: []string{"node-a", "node-b"}}},
		"nor the one with room in another class":      {base: "I-04", add: capacity("node-b", "storageClassName: other\ncapacity: 90Gi"), want: Placement{Required: []string{"node-a", "node-b"}}},
		"nor one that says nothing":                   {base: "I-04", add: capacity("node-b", "storageClassName: local"), want: Placement{Required: []string{"node-a", "node-b"}}},
		"the node without clones of the image":        {base: "I-04", add: clone("x", "node-a"), want: Placement{[]string{"node-a", "node-b"}, prefer(Preference{"node-b", 50})}},
		"the node with fewer":                         {base: "I-04", add: clone("x", "node-a") + clone("w", "node-a") + clone("z", "node-b"), want: Placement{[]string{"node-a", "node-b"}, prefer(Preference{"node-b", 25})}},
		"nor one that was not seen":                   {base: "R1-02a", args: []string{"--source-nodes=node-y,node-z"}, add: capacity("node-y", "storageClassName: local\ncapacity: 90Gi"), want: Placement{Required: []string{"node-y", "node-z"}}},
		"nor one that a selector means which is none": {base: "I-04", want: Placement{Required: []string{"node-a", "node-b"}},
			add: strings.Replace(capacity("node-b", "storageClassName: local\ncapacity: 90Gi"), "{matchLabels: {linbit.com/hostname: node-b}}", "{matchExpressions: [{key: linbit.com/hostname, operator: About}]}", 1)},
		"clones of other images don't count":   {base: "I-04", add: strings.Replace(clone("x", "node-a"), "images-ubuntu", "images-debian", 1), want: Placement{Required: []string{"node-a", "node-b"}}},
		"nor do those without a claim yet":     {base: "I-04", add: strings.Replace(clone("x", "node-a"), "kind: PersistentVolumeClaim\nmetadata: {name: x", "kind: PersistentVolumeClaim\nmetadata: {name: u", 1), want: Placement{Required: []string{"node-a", "node-b"}}},
		"a copy is made where its consumer is": {base: "L7-01", args: []string{"--selected-node=node-c"}, add: capacity("node-b", "storageClassName: local\ncapacity: 90Gi"), want: Placement{Required: []string{"node-c"}}},
		"a copy may be anywhere":               {base: "R1-01", add: clone("x", "node-a") + "---\n" + capacity("node-c", "storageClassName: local\ncapacity: 20Gi"), want: Placement{Preferred: prefer(Preference{"node-c", 100}, Preference{"node-b", 50})}},
		"where the driver chooses, it chooses": {base: "L1-01a", add: clone("x", "node-a")},
	} {
		t.Run(name, func(t *testing.T) {
			v := variant{base: c.base, add: c.add, args: c.args}
			e := v.example(t)
			cluster, o := clusterOf(t, parse(t, v.manifests(t))), e.options(t)
			got := Of(All(Cluster{Disks: cluster.Disks}, o)[0], cluster, o).Placement
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodeAffinity(t *testing.T) {
	if got := (Placement{}).NodeAffinity(); got != nil {
		t.Errorf("a free placement has the affinity %v", got)
	}
	named := func(node string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{node}}}}
	}
	want := &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{named("a"), named("b")}},
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 7, Preference: named("b")}},
	}
	if diff := cmp.Diff(want, Placement{[]string{"a", "b"}, []Preference{{"b", 7}}}.NodeAffinity()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want.RequiredDuringSchedulingIgnoredDuringExecution = nil
	if diff := cmp.Diff(want, Placement{nil, []Preference{{"b", 7}}}.NodeAffinity()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
