package clone

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Placement is where the first pod that mounts a disk may run, and where it had better. Nil fields leave it to the scheduler. It is never a
// nodeName: the scheduler must be able to follow a volume that landed elsewhere.
type Placement struct {
	// Required are the nodes that the volume can be used from.
	Required []string
	// Preferred are nodes with weights from 1 to 100: those with room for the volume, and with few clones of the same source.
	Preferred []Preference
}

// Preference is a node, and how much it is preferred.
type Preference struct {
	Node   string
	Weight int32
}

// The weights of a node with room, and of one without clones of the same source.
const (
	weightOfRoom  = 50
	weightOfSpace = 50
)

// placement judges the nodes that a plan leaves: those that it is kept on, or for a copy all.
func (v view) placement(p Plan) Placement {
	nodes := p.Nodes
	if p.Strategy == HostAssisted && len(nodes) == 0 {
		for _, n := range v.cluster.Nodes {
			nodes = append(nodes, n.Name)
		}
	}
	placed := Placement{Required: p.Nodes}
	if len(nodes) < 2 {
		return placed
	}
	clones := v.clonesOn()
	most := 0
	for _, n := range nodes {
		most = max(most, clones[n])
	}
	for _, n := range nodes {
		weight := 0
		if v.hasRoom(n) {
			weight += weightOfRoom
		}
		if most > 0 {
			weight += weightOfSpace - weightOfSpace*clones[n]/most
		}
		if weight > 0 {
			placed.Preferred = append(placed.Preferred, Preference{n, int32(weight)})
		}
	}
	slices.SortFunc(placed.Preferred, func(a, b Preference) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Node, b.Node))
	})
	return placed
}

// hasRoom says whether the driver has published that a node has room for the disk.
func (v view) hasRoom(node string) bool {
	n := v.cluster.node(node)
	return n != nil && slices.ContainsFunc(v.cluster.Capacities, func(c storagev1.CSIStorageCapacity) bool {
		selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if c.StorageClassName != v.class.Name || err != nil || !selector.Matches(labels.Set(n.Labels)) {
			return false
		}
		room := c.Capacity
		if c.MaximumVolumeSize != nil {
			room = c.MaximumVolumeSize
		}
		return room != nil && room.Value() >= v.targetBytes()
	})
}

// clonesOn counts, for each node, the disks that are made from the same source and have their data there.
func (v view) clonesOn() map[string]int {
	count := map[string]int{}
	for _, dv := range v.cluster.DataVolumes {
		if OfDataVolume(dv, v.cluster).Source != v.source.Source {
			continue
		}
		claim := v.cluster.claim(dv.Namespace, dv.Name)
		if claim == nil {
			continue
		}
		if pv := v.cluster.volume(claim.Spec.VolumeName); pv != nil {
			for _, node := range v.cluster.dataNodes(pv) {
				count[node]++
			}
		}
	}
	return count
}

// NodeAffinity is the placement for a pod; nil: the scheduler is free.
func (p Placement) NodeAffinity() *corev1.NodeAffinity {
	if len(p.Required)+len(p.Preferred) == 0 {
		return nil
	}
	affinity := &corev1.NodeAffinity{}
	if len(p.Required) > 0 {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	for _, n := range p.Required {
		terms := &affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		*terms = append(*terms, only(n))
	}
	for _, n := range p.Preferred {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: n.Weight, Preference: only(n.Node)})
	}
	return affinity
}

// only is the term for one node. A name is looked up as a field, since a label need not be the name; a field takes one value, and so there is
// a term for each node.
func only(node string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
		{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}
}
