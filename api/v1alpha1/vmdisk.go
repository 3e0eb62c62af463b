package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VMDisk is a disk for a virtual machine: what is on it, how large it is, where it lives.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vmd,categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="The spec is accepted, and the disk is asked for"
// +kubebuilder:printcolumn:name="Workloads",type=string,JSONPath=`.status.conditions[?(@.type=="WorkloadsReady")].status`,description="The disk holds its bytes, or rests until its consumer comes"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="The phase of the disk's DataVolume"
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`,description="How much of the source is through"
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.status.size`,description="The size that the guest sees"
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.status.storageClass`,description="The StorageClass that the disk lives in"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="WorkloadsReady")].message`,description="What the disk is doing or waiting for"
type VMDisk struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   VMDiskSpec   `json:"spec"`
	Status VMDiskStatus `json:"status,omitempty"`
}

// VMDiskSpec is what the disk's owner asks for.
//
// +kubebuilder:validation:XValidation:rule="has(self.source) == has(oldSelf.source) && (!has(self.source) || self.source == oldSelf.source)",message="source is immutable: delete and recreate the disk to change it"
// +kubebuilder:validation:XValidation:rule="has(self.storageClass) == has(oldSelf.storageClass) && (!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",message="storageClass is immutable: delete and recreate the disk to change it"
// +kubebuilder:validation:XValidation:rule="has(self.storage) == has(oldSelf.storage) && (!has(self.storage) || quantity(string(self.storage)).compareTo(quantity(string(oldSelf.storage))) >= 0)",message="storage may only grow: delete and recreate the disk to make it smaller"
// +kubebuilder:validation:XValidation:rule="!has(self.storage) || quantity(string(self.storage)).compareTo(quantity('1Mi')) >= 0",message="storage must be at least 1Mi"
// +kubebuilder:validation:XValidation:rule="has(self.storage) || (has(self.source) && (has(self.source.image) || has(self.source.disk)))",message="storage is missing: say how large the disk is to be, for example storage: 20Gi"
type VMDiskSpec struct {
	// Source is what the disk is filled with. A disk without a source is blank. Immutable.
	// +optional
	Source *Source `json:"source,omitempty"`
	// Optical presents the disk to its virtual machine as a CD-ROM.
	// +optional
	Optical bool `json:"optical,omitempty"`
	// Storage is the size of the disk as the guest sees it. It may only grow, in a class that allows it. A disk made from an image or from
	// another disk may leave it out, and is then as large as that.
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`
	// StorageClass is the class that the disk lives in. Empty: the class annotated as the default for virtual
	// machines, else the cluster's default. Immutable.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClass string `json:"storageClass,omitempty"`
	// BindImmediately makes the volume when the disk is created, rather than when its first consumer comes. It only
	// makes a difference in a class that waits for the first consumer. Turn it off there for a disk whose virtual
	// machine can't run on every node.
	// +optional
	// +kubebuilder:default=true
	BindImmediately *bool `json:"bindImmediately,omitempty"`
	// Placement says on which nodes the disk's workers may run, so that a volume which is pinned to a node is made where
	// its virtual machine can run. Empty: where the platform's administrator puts workers. A change counts for the next
	// worker; a volume that is made stays where it is.
	// +optional
	Placement *Placement `json:"placement,omitempty"`
}

// Source is where a disk's bytes come from. At most one member is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.image), has(self.http), has(self.upload), has(self.disk)].filter(x, x).size() <= 1",message="a disk has one source: set only one of image, http, upload and disk"
type Source struct {
	// Image is a golden image that the platform offers.
	// +optional
	Image *NamedSource `json:"image,omitempty"`
	// HTTP is an image behind a URL.
	// +optional
	HTTP *HTTPSource `json:"http,omitempty"`
	// Upload waits for bytes from the outside.
	// +optional
	Upload *UploadSource `json:"upload,omitempty"`
	// Disk is another VMDisk in this namespace.
	// +optional
	Disk *NamedSource `json:"disk,omitempty"`
}

// NamedSource names an image or a disk.
type NamedSource struct {
	// Name of the image or the disk.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// UploadSource has no settings.
type UploadSource struct{}

// HTTPSource is an image behind a URL. The names and meanings of its fields are those of a DataVolume's http source.
type HTTPSource struct {
	// URL of the image, http or https.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^/]`
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="url can't be read: check it for spaces, its port, and characters that must be escaped"
	URL string `json:"url"`
	// Checksum of the bytes as they are served, "algorithm:hex": md5, sha1, sha256 or sha512.
	// +optional
	// +kubebuilder:validation:MaxLength=140
	// +kubebuilder:validation:XValidation:rule="self.matches('^(md5:[0-9a-fA-F]{32}|sha1:[0-9a-fA-F]{40}|sha256:[0-9a-fA-F]{64}|sha512:[0-9a-fA-F]{128})$')",message="checksum must be md5:, sha1:, sha256: or sha512: followed by the sum in hexadecimal"
	Checksum string `json:"checksum,omitempty"`
	// SecretRef names a Secret in this namespace with accessKeyId and secretKey for basic authentication.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretRef string `json:"secretRef,omitempty"`
	// CertConfigMap names a ConfigMap in this namespace whose every value is a PEM certificate authority to trust.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CertConfigMap string `json:"certConfigMap,omitempty"`
	// ExtraHeaders are header lines, "Name: value", sent with each request.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=8192
	ExtraHeaders []string `json:"extraHeaders,omitempty"`
	// SecretExtraHeaders name Secrets in this namespace whose every value is a header line.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=253
	SecretExtraHeaders []string `json:"secretExtraHeaders,omitempty"`
}

// Immediate says whether the volume is made at once, rather than for its first consumer.
func (s VMDiskSpec) Immediate() bool { return s.BindImmediately == nil || *s.BindImmediately }

// VMDiskStatus is what vmdisk says of the disk.
type VMDiskStatus struct {
	// ObservedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready (the spec is accepted, and the disk is asked for), WorkloadsReady (the disk holds its bytes, or
	// rests until its consumer comes) and, for a disk that grows or has grown, Resizing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// DataVolume is the name of the DataVolume that this disk is made through, and of its claim: what a virtual
	// machine names to use the disk.
	// +optional
	DataVolume string `json:"dataVolume,omitempty"`
	// Phase is the phase of the DataVolume.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Progress is how much of the source is through, such as "41.75%".
	// +optional
	Progress string `json:"progress,omitempty"`
	// Size is the size that the guest sees.
	// +optional
	Size string `json:"size,omitempty"`
	// StorageClass is the class that the disk lives in.
	// +optional
	StorageClass string `json:"storageClass,omitempty"`
	// Clone says how a disk is made from an image or another disk, and why so.
	// +optional
	Clone *CloneStatus `json:"clone,omitempty"`
}

// CloneStatus is how a disk is made from another volume.
type CloneStatus struct {
	// Strategy is csi-clone, snapshot or host-assisted.
	// +optional
	Strategy string `json:"strategy,omitempty"`
	// Reason is one CamelCase word for why this strategy, and Message a sentence.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// Source is what the disk is made from, such as "PersistentVolumeClaim cozy-public/vm-default-images-debian".
	// +optional
	Source string `json:"source,omitempty"`
	// Since is when this strategy was taken.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Trace is what was passed over, in order: before the disk was begun, and a strategy that failed at work.
	// +optional
	// +listType=atomic
	Trace []PassedOver `json:"trace,omitempty"`
	// FellBack: a strategy failed at work, the last of the trace, and this one took its place.
	// +optional
	FellBack bool `json:"fellBack,omitempty"`
}

// PassedOver is a strategy that was not taken, or that failed, and why.
type PassedOver struct {
	Strategy string `json:"strategy"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
}

// The types of a VMDisk's conditions.
const (
	// ConditionReady: the spec is accepted, and the disk is asked for.
	ConditionReady = "Ready"
	// ConditionWorkloadsReady: the disk holds its bytes, or rests until its consumer comes.
	ConditionWorkloadsReady = "WorkloadsReady"
	// ConditionResizing: the disk is on its way to the size that its spec asks for. A disk that never grew has no such condition.
	ConditionResizing = "Resizing"
)

// VMDiskList is a list of disks.
//
// +kubebuilder:object:root=true
type VMDiskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VMDisk `json:"items"`
}
