package clone

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
)

// reach is from where a clone could be used.
type reach struct {
	// anywhere: from each node, as far as is known.
	anywhere bool
	// nodes are those, in order, that it could be used from; none, where that isn't known.
	nodes []string
}

func (r reach) has(node string) bool { return slices.Contains(r.nodes, node) }

// reach is from where a clone could be used: it is made next to the source's data.
func (v view) reach() reach {
	if !v.linstor() {
		return v.reachByAffinity()
	}
	if v.parameters.Access.Anywhere {
		return reach{anywhere: true}
	}
	for _, rule := range v.parameters.Access.Rules {
		if v.unlabelled(rule) {
			return reach{anywhere: true}
		}
	}
	nodes := slices.Clone(v.source.data)
	for _, n := range v.cluster.Nodes {
		if v.sharesARule(n.Name) {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(nodes)
	return reach{nodes: slices.Compact(nodes)}
}

// unlabelled says whether a rule has no label that counts: linstor-csi drops a label that the node of the data lacks, and a rule without
// labels is access from anywhere. While it isn't known where the data is, it must be so on every node.
func (v view) unlabelled(rule []string) bool {
	if len(v.source.data) > 0 {
		return slices.ContainsFunc(v.source.data, func(node string) bool { return v.cluster.node(node) != nil && len(v.labelled(node, rule)) == 0 })
	}
	return len(v.cluster.Nodes) > 0 && !slices.ContainsFunc(v.cluster.Nodes, func(n corev1.Node) bool { return len(v.labelled(n.Name, rule)) > 0 })
}

// sharesARule says whether a node has the values of a node that holds the data, for the labels of some rule.
func (v view) sharesARule(node string) bool {
	for _, rule := range v.parameters.Access.Rules {
		for _, data := range v.source.data {
			wanted := v.labelled(data, rule)
			has := v.labelled(node, rule)
			matches := func(l string) bool { value, ok := has[l]; return ok && value == wanted[l] }
			if len(wanted) > 0 && !slices.ContainsFunc(rule, func(l string) bool { _, asked := wanted[l]; return asked && !matches(l) }) {
				return true
			}
		}
	}
	return false
}

// labelled are those of a rule's labels that LINSTOR knows on a node: those that the node's driver has for topology. A node's name in
// LINSTOR is known of each.
func (v view) labelled(node string, rule []string) map[string]string {
	known := map[string]string{}
	var has map[string]string
	if n := v.cluster.node(node); n != nil {
		has = n.Labels
	}
	driver := v.cluster.driverNode(linstor.Driver, node)
	for _, l := range rule {
		value, ok := has[l]
		switch {
		case l == linstor.Hostname:
			known[l] = cmp.Or(value, node)
		case ok && (driver == nil || slices.Contains(driver.TopologyKeys, l)):
			known[l] = value
		}
	}
	return known
}

// reachByAffinity takes the nodes of the source's volume for those of the clone's, for drivers whose parameters say nothing of nodes.
func (v view) reachByAffinity() reach {
	if v.source.volume == nil || v.source.volume.Spec.NodeAffinity == nil || v.source.volume.Spec.NodeAffinity.Required == nil {
		return reach{anywhere: true}
	}
	var nodes []string
	for _, n := range v.cluster.Nodes {
		if slices.ContainsFunc(v.source.volume.Spec.NodeAffinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return matches(t, n) }) {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(nodes)
	return reach{anywhere: len(nodes) == 0, nodes: nodes}
}

// matches says whether a term of a node selector chooses a node. What can't be understood chooses none.
func matches(term corev1.NodeSelectorTerm, node corev1.Node) bool {
	chooses := func(set labels.Set) func(corev1.NodeSelectorRequirement) bool {
		return func(e corev1.NodeSelectorRequirement) bool {
			operator := map[corev1.NodeSelectorOperator]selection.Operator{
				corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
				corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
			}[e.Operator]
			r, err := labels.NewRequirement(e.Key, operator, e.Values)
			return err == nil && r.Matches(set)
		}
	}
	return all(term.MatchExpressions, chooses(node.Labels)) && all(term.MatchFields, chooses(labels.Set{"metadata.name": node.Name})) &&
		len(term.MatchExpressions)+len(term.MatchFields) > 0
}

func all[T any](values []T, holds func(T) bool) bool {
	return !slices.ContainsFunc(values, func(v T) bool { return !holds(v) })
}

// grants is why a clone can be used from where it has to be, and the nodes that what mounts it is kept on.
func (r reach) grants(v view) (reason Reason, nodes []string, why string) {
	switch {
	case r.anywhere && v.linstor() && !v.parameters.Access.Anywhere:
		return RemoteAccessAllowed, nil, fmt.Sprintf("volumes of StorageClass %s can be used from every node, since a rule of its allowRemoteVolumeAccess has only labels that LINSTOR does not know where the data is, and so excludes no node", v.class.Name)
	case r.anywhere && v.linstor():
		return RemoteAccessAllowed, nil, fmt.Sprintf("volumes of StorageClass %s can be used from every node, %s", v.class.Name, v.accessWords())
	case r.anywhere:
		return SameDriver, nil, fmt.Sprintf("both volumes are of %s", v.class.Provisioner)
	case v.options.SelectedNode != "":
		return PinnedToSourceNodes, []string{v.options.SelectedNode}, fmt.Sprintf("it can be used from node %s, where its consumer runs", v.options.SelectedNode)
	default:
		return PinnedToSourceNodes, r.nodes, fmt.Sprintf("it can be used from %s, and what mounts it first is kept there", list(r.nodes))
	}
}

// accessWords is what the class's parameters say of access.
func (v view) accessWords() string {
	switch a := v.parameters.Access; {
	case a.Anywhere && v.parameters.Networked:
		return "as its parameters allow remote access"
	case a.Anywhere:
		return "as allowRemoteVolumeAccess says"
	case len(a.Rules) == 1 && slices.Equal(a.Rules[0], []string{linstor.Hostname}):
		return "since it allows no remote access"
	case len(a.Rules) == 0:
		return "since its allowRemoteVolumeAccess has no rule"
	default:
		var rules []string
		for _, r := range a.Rules {
			rules = append(rules, strings.Join(r, " and "))
		}
		return "and from nodes of the same " + strings.Join(rules, ", or the same ")
	}
}

func (s source) dataWords() string {
	if len(s.data) == 0 {
		return "which ones is not known"
	}
	return list(s.data)
}

func list(nodes []string) string {
	if len(nodes) == 1 {
		return "node " + nodes[0]
	}
	return "nodes " + strings.Join(nodes, ", ")
}
