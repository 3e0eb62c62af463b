package clone

// Strategy is a way to make a disk, or what stands in for one where there is none.
type Strategy string

// The strategies.
const (
	// CSIClone has the driver clone the source's volume.
	CSIClone Strategy = "csi-clone"
	// Snapshot has the driver snapshot the source's volume, and restore the snapshot.
	Snapshot Strategy = "snapshot"
	// HostAssisted copies the bytes from the one volume to the other.
	HostAssisted Strategy = "host-assisted"
	// Wait makes nothing yet: something that may still come is missing.
	Wait Strategy = "wait"
	// Reject makes nothing: no strategy can work, or the policy refuses the disk.
	Reject Strategy = "reject"
	// None makes nothing: there is nothing to clone.
	None Strategy = "none"
)

// Reason is why a strategy was taken, or passed over. Reasons become reasons of conditions.
type Reason string

// The reasons.
const (
	DiskExists Reason = "DiskExists"
	NotAClone  Reason = "NotAClone"

	RemoteAccess              Reason = "RemoteAccess"
	SnapshotClassMissing      Reason = "SnapshotClassMissing"
	TargetSmallerThanSource   Reason = "TargetSmallerThanSource"
	InvalidStorageClassParams Reason = "InvalidStorageClassParameters"
	ClaimNotValid             Reason = "ErrClaimNotValid"

	NoDefaultStorageClass      Reason = "NoDefaultStorageClass"
	TargetStorageClassNotFound Reason = "TargetStorageClassNotFound"
	StorageProfileIncomplete   Reason = "StorageProfileIncomplete"
	SourceNotFound             Reason = "SourceNotFound"
	SourceNotReady             Reason = "SourceNotReady"
	SourceVolumeMissing        Reason = "SourceVolumeMissing"
	SourceVolumeMismatch       Reason = "SourceVolumeMismatch"
	SourceInUse                Reason = "SourceInUse"
	WaitForFirstConsumer       Reason = "WaitForFirstConsumer"

	CopyRequested         Reason = "CopyRequested"
	DriverMismatch        Reason = "DriverMismatch"
	NoCSIDriver           Reason = "NoCSIDriver"
	SourceNotCSI          Reason = "SourceNotCSI"
	VolumeModeMismatch    Reason = "VolumeModeMismatch"
	NoVolumeExpansion     Reason = "NoVolumeExpansion"
	NoVolumeSnapshotClass Reason = "NoVolumeSnapshotClass"
	QuotaExceeded         Reason = "QuotaExceeded"
	ConflictingParameters Reason = "ConflictingParameters"
	UnreplicatedTarget    Reason = "UnreplicatedTarget"
	TargetNotReachable    Reason = "TargetNotReachableFromEveryNode"
	ConsumerNodeLacksData Reason = "ConsumerNodeLacksSourceData"

	RemoteAccessAllowed Reason = "RemoteAccessAllowed"
	SameDriver          Reason = "SameDriver"
	PinnedToSourceNodes Reason = "PinnedToSourceNodes"
)

// Entry is one line of the glossary.
type Entry struct {
	Reason  Reason
	With    string
	Meaning string
}

// Glossary is every reason, in the order in which they are looked for. docs/clone.md shows it.
func Glossary() []Entry {
	const none, reject, wait, copied, advanced = "none", "reject", "wait", "host-assisted", "csi-clone, snapshot"
	return []Entry{
		{DiskExists, none, "the disk's DataVolume or claim exists already, and is never made again"},
		{NotAClone, none, "the disk is filled from a URL, an upload or with nothing: there is nothing to clone"},
		{RemoteAccess, reject, "the policy refuses the disk: its volume could not be used from every node, and a clone may never bind"},
		{SnapshotClassMissing, reject + ", " + copied, "both StorageProfiles name one VolumeSnapshotClass, and it does not exist. It rejects the disk only where the policy refuses"},
		{NoDefaultStorageClass, wait, "the disk names no StorageClass, and no class is the default"},
		{TargetStorageClassNotFound, wait, "the StorageClass that the disk names does not exist"},
		{InvalidStorageClassParams, reject, "linstor-csi can't read the class's parameters, and so makes no volume of it by any strategy"},
		{TargetSmallerThanSource, reject, "the disk that is asked for is smaller than its source"},
		{StorageProfileIncomplete, wait, "the class's StorageProfile doesn't exist, or doesn't say which modes its volumes have"},
		{ClaimNotValid, reject, "no claim can be made of what the disk's spec says"},
		{SourceNotFound, wait, "the source doesn't exist"},
		{SourceVolumeMissing, wait, "the source's claim is bound, and its volume is gone"},
		{SourceVolumeMismatch, wait, "the source's volume says that it belongs to another claim"},
		{SourceNotReady, wait, "the source is not bound, or not filled yet"},
		{SourceInUse, wait, "a pod may write to the source"},
		{WaitForFirstConsumer, wait, "the class makes volumes for their first consumer, and none has come. This is a state to rest in"},
		{CopyRequested, copied, "the CDI resource or the class's StorageProfile asks for a copy, or for something that is no strategy"},
		{DriverMismatch, copied, "the source's volume is another driver's than the class's, or its driver is not known"},
		{NoCSIDriver, copied, "the class's provisioner is no CSI driver of this cluster"},
		{SourceNotCSI, copied, "the source's volume was made without a CSI driver"},
		{VolumeModeMismatch, copied, "one volume is a block device, and the other has a filesystem"},
		{NoVolumeExpansion, copied, "a clone is as large as its source, and the class does not let it grow to the disk's size"},
		{NoVolumeSnapshotClass, copied, "no VolumeSnapshotClass serves: there is none of the driver, or the one that both profiles name is another driver's"},
		{QuotaExceeded, copied, "a quota has no room for a VolumeSnapshot in the source's namespace"},
		{ConflictingParameters, copied, "two spellings of one LINSTOR parameter disagree, and linstor-csi takes either at random"},
		{UnreplicatedTarget, copied, "LINSTOR would clone onto each node that holds the source, and without DRBD or NVMe these would be independent copies"},
		{TargetNotReachable, copied, "the clone could be used only from where the source's data is, and that is not known, or not known to be where its consumer runs"},
		{ConsumerNodeLacksData, copied, "the clone could not be used from its consumer's node"},
		{RemoteAccessAllowed, advanced, "the clone can be used from every node"},
		{SameDriver, advanced, "one driver, which says nothing of nodes, has both volumes"},
		{PinnedToSourceNodes, advanced, "the clone can be used from the nodes that are listed, and what mounts it is kept there"},
	}
}
