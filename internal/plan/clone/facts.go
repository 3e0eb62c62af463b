package clone

import (
	"fmt"
	"slices"
	"strings"

	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// Fact is something that a plan rests on.
type Fact struct{ Name, Text string }

// facts are the objects that count, as far as they exist.
func (v view) facts() []Fact {
	var facts []Fact
	if v.source.kind != noSource {
		facts = append(facts, Fact{"source", v.sourceFact()})
	}
	if v.class != nil {
		facts = append(facts, Fact{"class", v.classFact()})
		if v.targetErr == nil {
			facts = append(facts, Fact{"claim", fmt.Sprintf("%s, %s", quantity(v.targetBytes()), volume.Mode(v.target.Claim.VolumeMode))})
		}
		if v.source.kind == claimSource { // of a snapshot nobody is asked
			facts = append(facts, Fact{"wish", v.wishFact()})
		}
	}
	if v.options.SelectedNode != "" {
		facts = append(facts, Fact{"consumer", "node " + v.options.SelectedNode})
	}
	return facts
}

func (v view) sourceFact() string {
	s := v.source
	if s.claim == nil && s.content == nil {
		return s.String() + ", not found or not ready"
	}
	words := []string{s.String(), quantity(s.capacity), string(s.mode)}
	if s.claim != nil {
		words = append(words, or("StorageClass "+s.className(), s.className() != "", "no StorageClass"))
	}
	words = append(words, or("driver "+s.driver, s.driver != "", "driver not known"))
	words = append(words, or("data on "+list(s.data), len(s.data) > 0, "which nodes hold its data is not known"))
	return strings.Join(words, ", ")
}

func (v view) classFact() string {
	words := []string{v.class.Name, "provisioner " + v.class.Provisioner, or("allows expansion", v.expands(), "no expansion")}
	if v.class.VolumeBindingMode != nil {
		words = append(words, string(*v.class.VolumeBindingMode))
	}
	if v.linstor() {
		words = append(words, or("volumes can be used from every node", v.parameters.Access.Anywhere, "volumes can be used only from where their data is, "+v.accessWords()))
		words = append(words, or("with a layer over the network", v.parameters.Networked, "without DRBD or NVMe"))
	}
	if v.byDefault {
		words = append(words, "chosen as the default")
	}
	if len(v.ties) > 1 {
		words = append(words, "among "+strings.Join(v.ties, ", "))
	}
	return strings.Join(words, ", ")
}

func (v view) wishFact() string {
	if v.wish.unknown != "" {
		return fmt.Sprintf("%q, by the %s", v.wish.unknown, v.wish.from)
	}
	return fmt.Sprintf("%s, by %s", v.wish.strategy, v.wish.from)
}

func or(yes string, holds bool, no string) string {
	if holds {
		return yes
	}
	return no
}

// remedies are what could be changed to have the disk sooner, or at all. A message that says so itself is not repeated.
func (v view) remedies(plan Plan) []string {
	var all []string
	for i, p := range plan.Trace {
		needed := v.needed(p.Strategy)
		if i > 0 && len(needed) > 1 {
			continue // for the second best, one change at most
		}
		for _, text := range needed {
			if !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	if len(v.ties) > 1 {
		all = append(all, "Several classes are the default: name one in the disk, or take the annotation from all but one")
	}
	return all
}

// needed is all that would have to change for a strategy; none, where that is not enough or nothing can be.
func (v view) needed(s Strategy) []string {
	var all []string
	for _, rule := range rules() {
		reason, _ := rule(v, s)
		if reason == "" {
			continue
		}
		text := v.remedy(reason)
		if text == "" {
			return nil
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func (v view) remedy(r Reason) string {
	switch r {
	case CopyRequested:
		return "To have it cloned, change " + v.wish.from
	case NoCSIDriver:
		return "If the provisioner is a CSI driver, install its CSIDriver object"
	case NoVolumeExpansion:
		return fmt.Sprintf("Set allowVolumeExpansion: true in StorageClass %s, or ask for a disk of the source's %s", v.class.Name, quantity(v.source.capacity))
	case SnapshotClassMissing, NoVolumeSnapshotClass:
		return v.snapshotClass.remedy
	case QuotaExceeded:
		short := v.shortOfSnapshots()
		return fmt.Sprintf("For a snapshot, raise %s in quota %s of namespace %s", snapshotCount, short.Name, short.namespace)
	case ConflictingParameters:
		return fmt.Sprintf("Create StorageClass %s again with one spelling of each parameter", v.class.Name)
	case UnreplicatedTarget, TargetNotReachable, ConsumerNodeLacksData:
		return v.remedyOfPlace()
	default:
		return ""
	}
}

// remedyOfPlace is for clones that can't be used from everywhere.
func (v view) remedyOfPlace() string {
	if !v.linstor() {
		return "For a clone, have the disk's consumer run on " + list(v.reach().nodes)
	}
	text := "For a clone, use a StorageClass of LINSTOR with DRBD that allows remote volume access"
	if classes := v.cluster.classesFromAnywhere(); len(classes) > 0 {
		text += ": " + strings.Join(classes, ", ")
	}
	if len(v.source.data) == 0 {
		text += "; or say which nodes hold the source's data (--source-nodes)"
	}
	return text
}

// classesFromAnywhere are LINSTOR's classes whose clones can be used from each node.
func (c Cluster) classesFromAnywhere() []string {
	var names []string
	for _, class := range c.Classes {
		p := linstor.Parse(class.Parameters)
		if class.Provisioner == linstor.Driver && p.Invalid == "" && p.Conflict == "" && p.Networked && p.Access.Anywhere {
			names = append(names, class.Name)
		}
	}
	slices.Sort(names)
	return names
}
