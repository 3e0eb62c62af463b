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
