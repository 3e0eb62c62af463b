package cdi

// Annotations that users set.
const (
	// BindImmediate on a DataVolume: do not wait for the first consumer. Its presence counts, not its value.
	BindImmediate = "cdi.kubevirt.io/storage.bind.immediate.requested"
	// RetainAfterCompletion on a DataVolume, "true": keep the worker pod of a finished disk.
	RetainAfterCompletion = "cdi.kubevirt.io/storage.pod.retainAfterCompletion"
	// AllowClaimAdoption on a DataVolume, "true": take over a claim of the same name that nobody owns, as it is.
	AllowClaimAdoption = "cdi.kubevirt.io/allowClaimAdoption"
	// PrePopulated on a DataVolume: its claim comes from a backup; never fill it.
	PrePopulated = "cdi.kubevirt.io/storage.prePopulated"
	// CheckStaticVolume on a DataVolume: where a PersistentVolume is reserved for its claim, that one has the bytes; never fill it.
	CheckStaticVolume = "cdi.kubevirt.io/storage.checkStaticVolume"
	// PopulatedFor on a claim: it holds the bytes of the DataVolume that is named. vmdisk writes it, too, as the
	// lasting mark that a claim must never be filled again.
	PopulatedFor = "cdi.kubevirt.io/storage.populatedFor"
	// MultusNetworks and MultusDefaultNetwork on a DataVolume are copied to its workers.
	MultusNetworks       = "k8s.v1.cni.cncf.io/networks"
	MultusDefaultNetwork = "v1.multus-cni.io/default-network"
	// IstioInject and LinkerdInject on a DataVolume are copied to its workers; a worker is outside meshes by default.
	IstioInject   = "sidecar.istio.io/inject"
	LinkerdInject = "linkerd.io/inject"
)

// Annotations on StorageClasses.
const (
	// DefaultVirtClass, "true": the default class for virtual machines' disks.
	DefaultVirtClass = "storageclass.kubevirt.io/is-default-virt-class"
	// DefaultClass, "true": the cluster's default class.
	DefaultClass = "storageclass.kubernetes.io/is-default-class"
	// CloneStrategyAnnotation holds the class's clone strategy: copy, snapshot or csi-clone.
	CloneStrategyAnnotation = "cdi.kubevirt.io/clone-strategy"
)

// MinimumClaimSize on a StorageProfile: the smallest claim that the class can serve, such as "4Gi". vmdisk sets it on the profiles of
// drivers that are known to have one; administrators may change it.
const MinimumClaimSize = "cdi.kubevirt.io/minimumSupportedPvcSize"

// Annotations that vmdisk writes and others read.
const (
	// PodPhase on a claim: the phase of its last worker.
	PodPhase = "cdi.kubevirt.io/storage.pod.phase"
	// Preallocation on a claim, "true": the disk's space is allocated. KubeVirt then leaves its holes alone.
	Preallocation = "cdi.kubevirt.io/storage.preallocation"
	// UsePopulator on a DataVolume and on its claim: "true", a populator fills the claim by way of another; "false", the claim is filled
	// itself. Whoever makes a DataVolume asks for one of them with it, and the controller says which it is.
	UsePopulator = "cdi.kubevirt.io/storage.usePopulator"
	// PopulatorProgress on a claim that a populator fills: how far it is, such as "42.00%".
	PopulatorProgress = "cdi.kubevirt.io/storage.populator.progress"
	// CloneType on a claim: how it was cloned, copy, snapshot or csi-clone. CloneFallbackReason: why it was a copy, where that was no wish.
	CloneType           = "cdi.kubevirt.io/cloneType"
	CloneFallbackReason = "cdi.kubevirt.io/cloneFallbackReason"
	// ContentType on a claim: what it holds, kubevirt or archive.
	ContentType = "cdi.kubevirt.io/storage.contentType"
)

// SelectedNode on a claim: where the scheduler wants its volume.
const SelectedNode = "volume.kubernetes.io/selected-node"

// Labels.
const (
	// AppLabel and AppValue are on every worker and claim. NetworkPolicies select workers by them.
	AppLabel = "app"
	AppValue = "containerized-data-importer"
	// WorkerLabel tells the kind of worker.
	WorkerLabel = "cdi.kubevirt.io"
	// WorkerImporter is WorkerLabel's value for a worker that imports.
	WorkerImporter = "importer"
	// ManagedByLabel and ManagedBy are on everything that belongs to a disk. The value is CDI's, since policies and
	// dashboards select by it.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	ManagedBy      = "cdi-controller"
	// ComponentLabel and ComponentStorage are on everything that belongs to a disk.
	ComponentLabel   = "app.kubernetes.io/component"
	ComponentStorage = "storage"
	// FillingUpAlert, "disabled" on a claim with a filesystem: a disk image fills its volume by design.
	FillingUpAlert = "alerts.k8s.io/KubePersistentVolumeFillingUp"
)

// Reasons in a DataVolume's conditions and events that others match.
const (
	// ReasonErrExceededQuota: KubeVirt shows it on the virtual machine.
	ReasonErrExceededQuota = "ErrExceededQuota"
	// ReasonErrClaimNotValid: virtctl gives up on it.
	ReasonErrClaimNotValid = "ErrClaimNotValid"
	// ReasonErrResourceExists: a claim of that name is not the DataVolume's.
	ReasonErrResourceExists = "ErrResourceExists"
	// ReasonErrClaimLost: the claim's volume is gone.
	ReasonErrClaimLost = "ErrClaimLost"
	// ReasonClaimLost is the same, in the Bound condition.
	ReasonClaimLost = "ClaimLost"
	// ReasonError in Running: KubeVirt shows DataVolumeError.
	ReasonError = "Error"
	// ReasonImagePullFailed in Running: KubeVirt shows DataVolumeError.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonChecksumError: the bytes are not those that the checksum names.
	ReasonChecksumError = "ChecksumError"
	// ReasonErrStartingPod: the API server refused the worker.
	ReasonErrStartingPod = "ErrStartingPod"
	// ReasonNodeNotReady: the worker's node doesn't answer. CDI has no word for it.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonUnschedulable: no node takes the worker.
	ReasonUnschedulable = "Unschedulable"
	// ReasonTransferRunning in Ready: a worker runs.
	ReasonTransferRunning = "TransferRunning"
	// ReasonPodRunning in Running (sic: CDI's value has blanks).
	ReasonPodRunning = "Pod is running"
	// ReasonCompleted in Running: the worker is done.
	ReasonCompleted = "Completed"
	// ReasonPending, ReasonBound and ReasonNotFound in Bound.
	ReasonPending  = "Pending"
	ReasonBound    = "Bound"
	ReasonNotFound = "NotFound"
)

// Names that others look up.
const (
	// Group is CDI's. ImportSourceKind and CloneSourceKind are kinds that a claim's dataSourceRef names to be filled from them.
	Group            = "cdi.kubevirt.io"
	ImportSourceKind = "VolumeImportSource"
	CloneSourceKind  = "VolumeCloneSource"
	// ConfigName is the one CDIConfig.
	ConfigName = "config"
	// CDIName is the one CDI object. KubeVirt counts them, and wants exactly one.
	CDIName = "cdi"
	// DiskImage is the file on a filesystem volume that holds the disk.
	DiskImage = "disk.img"
	// DiskUser is the user, group and filesystem group that KubeVirt opens disks as.
	DiskUser = 107
	// DefaultOverhead is the share of a filesystem volume that is kept for the filesystem, unless configured.
	DefaultOverhead = "0.06"
)
