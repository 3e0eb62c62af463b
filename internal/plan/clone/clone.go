// Package clone decides how a disk is made from another volume: by the driver's clone, by a snapshot, or by a copy; whether it has to wait,
// can't be made at all, or is refused. It says why, and what it passed over. It is pure: what it judges was read by others, and who reads,
// a cluster or a file, is nothing to it.
//
// The rules are those of the page "Virtual Machine Disk" and of CDI, whose planner leaves some clones waiting for ever. Each such case is
// a rule here that passes the strategy over.
package clone

import corev1 "k8s.io/api/core/v1"

// Plan is how one disk is made, and why. Its JSON is what "vmdisk plan" prints.
type Plan struct {
	// Disk is what the plan is for, such as "VMDisk tenant-a/d1".
	Disk string `json:"disk"`
	// Refusal is why admission would refuse the disk where refusing is on; empty: it would not.
	Refusal  Reason   `json:"refusal"`
	Strategy Strategy `json:"strategy"`
	Reason   Reason   `json:"reason"`
	// Fallback is what follows if the strategy fails while it runs.
	Fallback Strategy `json:"fallback,omitempty"`
	// Nodes are those that the disk's workers are kept on, by node affinity.
	Nodes []string `json:"nodes,omitempty"`
	// StorageClass is the default that was chosen for a disk that names none, to be written down: defaults change.
	StorageClass string `json:"storageClass,omitempty"`
	// VolumeSnapshotClass is chosen once, and carried.
	VolumeSnapshotClass string `json:"volumeSnapshotClass,omitempty"`
	// Then is the strategy after a wait, as things are now.
	Then Strategy `json:"then,omitempty"`
	// Expand: the clone is made at its source's size, and then grown.
	Expand bool `json:"expand,omitempty"`
	// RestsReady: the disk counts as ready while it waits.
	RestsReady bool `json:"restsReady,omitempty"`
	// Trace is what was passed over, in order.
	Trace []PassedOver `json:"trace,omitempty"`
	// Message is the whole in one sentence.
	Message string `json:"message"`

	// Source is what the disk is made from, and SourceBytes how large the disk on it is; 0: not known. ClaimBytes is what the source's claim asks for, CapacityBytes
	// how large the source's volume is.
	Source                                 Source `json:"-"`
	SourceBytes, ClaimBytes, CapacityBytes int64  `json:"-"`
	// Placement is where the first pod that mounts the disk may run.
	Placement Placement `json:"-"`
	// Facts are what the plan rests on, and Remedies what could be changed, for people.
	Facts    []Fact   `json:"-"`
	Remedies []string `json:"-"`
	// Finding is the refusal in full; nil: there is none.
	Finding *Finding `json:"-"`
}

// PassedOver is a strategy that was not taken, and why.
type PassedOver struct {
	Strategy Strategy `json:"strategy"`
	Reason   Reason   `json:"reason"`
	Message  string   `json:"message"`
}

// Options are what the objects don't tell.
type Options struct {
	// ImageNamespace and ImagePrefix tell the claim of a golden image: that of the image's name behind the prefix, in the namespace.
	ImageNamespace, ImagePrefix string
	// DefaultClass is the class of a VMDisk that names none; empty: the cluster's own default.
	DefaultClass string
	// SelectedNode is the node that the disk's consumer was given; empty: none yet.
	SelectedNode string
	// SourceNodes are the nodes that hold the source's data, as its driver says; empty: it was not asked.
	SourceNodes []string
	// NoSnapshotAPI: the cluster doesn't serve VolumeSnapshots.
	NoSnapshotAPI bool
	Policy        Policy
}

// Of plans one disk.
func Of(request Request, cluster Cluster, options Options) Plan {
	v := look(request, cluster, options)
	finding := refusal(request, cluster, options)
	plan := v.verdict(finding)
	plan.Disk = request.String()
	plan.Source, plan.SourceBytes, plan.CapacityBytes = v.source.Source, v.source.diskBytes, v.source.capacity
	if v.source.claim != nil {
		q := v.source.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		plan.ClaimBytes = q.Value()
	}
	plan.Finding = finding
	if finding != nil {
		plan.Refusal = finding.Reason
	}
	if v.byDefault && v.class != nil && plan.Strategy != None {
		plan.StorageClass = v.class.Name
	}
	if v.class != nil {
		plan.Placement = v.placement(plan)
	}
	plan.Facts = v.facts()
	plan.Remedies = v.remedies(plan)
	return plan
}

// verdict asks, in this order: is there anything to clone, is it refused, can no strategy ever do it, does it have to wait for something.
// Who gets past all of these is made by the best strategy that nothing speaks against.
func (v view) verdict(finding *Finding) Plan {
	if finding != nil && v.options.Policy.Refuses {
		return Plan{Strategy: Reject, Reason: finding.Reason, Message: finding.Message(v.options.Policy)}
	}
	for _, judge := range []func(view) *Plan{
		alreadyMade, notAClone,
		noDefaultClass, classNotFound, invalidParameters, smallerThanSource,
		profileIncomplete, sourceNotFound, sourceVolumeMissing, sourceVolumeMismatch, sourceNotReady, sourceInUse, noRoom, waitsForConsumer,
	} {
		if plan := judge(v); plan != nil {
			return *plan
		}
	}
	return v.choose()
}

// choose takes the strategy that is wished for, or the next one that nothing speaks against. A copy always works. A wish is no order to
// hang: the reason for a copy is what spoke against the wish.
func (v view) choose() Plan {
	var trace []PassedOver
	for _, s := range v.candidates() {
		against := v.disqualified(s)
		if against == nil {
			return v.advanced(s, trace)
		}
		trace = append(trace, *against)
	}
	plan := Plan{Strategy: HostAssisted, Reason: trace[0].Reason, Trace: trace, Nodes: v.consumerNodes()}
	plan.Message = "the bytes are copied: " + trace[0].Message
	return plan
}

// candidates are the driver's own ways, the wished one first. Whoever wishes for snapshots is not given a clone, and a snapshot is only restored.
func (v view) candidates() []Strategy {
	if v.wish.strategy == Snapshot || v.source.kind == snapshotSource {
		return []Strategy{Snapshot}
	}
	return []Strategy{CSIClone, Snapshot}
}

// disqualified is the first rule that speaks against a strategy; nil: none does.
func (v view) disqualified(s Strategy) *PassedOver {
	for _, rule := range rules() {
		if reason, message := rule(v, s); reason != "" {
			return &PassedOver{s, reason, message}
		}
	}
	return nil
}

func (v view) advanced(s Strategy, trace []PassedOver) Plan {
	reason, nodes, why := v.reach().grants(v)
	plan := Plan{Strategy: s, Reason: reason, Fallback: HostAssisted, Nodes: nodes, Trace: trace, Expand: v.grows()}
	how := "the driver clones the source's volume"
	if s == Snapshot {
		how = "the driver restores a snapshot of the source's volume"
		if v.source.kind == snapshotSource {
			how = "the driver restores the snapshot"
		} else {
			plan.VolumeSnapshotClass = v.snapshotClass.name
		}
	}
	plan.Message = how + ": " + why
	if plan.Expand {
		plan.Message += "; the clone is then grown to " + quantity(v.targetBytes())
	}
	return plan
}

// consumerNodes is where the workers of a copy have to be.
func (v view) consumerNodes() []string {
	if v.options.SelectedNode == "" {
		return nil
	}
	return []string{v.options.SelectedNode}
}
