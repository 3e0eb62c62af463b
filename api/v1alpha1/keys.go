package v1alpha1

// Keys that vmdisk writes for itself. CDI's are in package api/cdi.
const (
	// MemoryAnnotation on a DataVolume holds the little that can't be seen in the cluster: how earlier attempts ended.
	MemoryAnnotation = "vmdisk.io/memory"
	// OpticalAnnotation on a DataVolume, "true": present the disk as a CD-ROM.
	OpticalAnnotation = "vm-disk.cozystack.io/optical"
	// RetryAnnotation on a VMDisk or a DataVolume: each new value asks once for a try now, also after Failed.
	RetryAnnotation = "vmdisk.io/retry"
	// PlacementAnnotation on a DataVolume says on which nodes its workers may run: a Placement, as JSON.
	PlacementAnnotation = "vmdisk.io/placement"
	// DiskSizeAnnotation on a claim, "30Gi": how large the disk on it is, once that is not the size that it was made with.
	DiskSizeAnnotation = "vmdisk.io/disk-size"
	// AttemptLabel on a worker: which attempt it is, from 1.
	AttemptLabel = "vmdisk.io/attempt"
	// EgressAnnotation on a DataVolume bounds which addresses its workers connect to: a job.Egress as JSON.
	EgressAnnotation = "vmdisk.io/egress"
	// PopulationAnnotation on a claim that is filled by the populator: what is being done, or waited for. "Reason: sentence".
	PopulationAnnotation = "vmdisk.io/population"
	// YieldedAnnotation on such a claim: when it gave its place up after attempts that failed, and so since when it stands in line.
	YieldedAnnotation = "vmdisk.io/yielded"
	// PopulatesLabel on the populator's own objects: the UID of the claim that they are for.
	PopulatesLabel = "vmdisk.io/populates"
	// TargetAnnotation on the populator's own objects: the namespace and name of that claim.
	TargetAnnotation = "vmdisk.io/target"
	// RebindAnnotation on a PersistentVolume: it is on its way from a temporary claim to the claim that is named, and how it is to be
	// reclaimed once it is there.
	RebindAnnotation = "vmdisk.io/rebind"
	// CloneAnnotation on a DataVolume that is made from another volume, and on the claim of a clone across namespaces: how it is made, and
	// why so. A CloneStatus as JSON.
	CloneAnnotation = "vmdisk.io/clone"
	// ClonesLabel on a DataVolume that makes a disk for a claim of another namespace: the UID of that claim.
	ClonesLabel = "vmdisk.io/clones"
	// SelectedNodeAnnotation on the DataVolume of a temporary disk: the node that the consumer of the disk was given.
	SelectedNodeAnnotation = "vmdisk.io/selected-node"
)
