// Package disk decides what a VMDisk needs: the DataVolume that makes it, and the status that rolls the DataVolume's up. It is pure, and
// speaks nothing but the CDI API, so that it works whoever serves that API. docs/STATES.md tells its states in prose.
package disk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/cause"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

// World is what was seen of one VMDisk. What doesn't exist is nil.
type World struct {
	Disk *v1alpha1.VMDisk
	// DataVolume and Claim have the disk's name, whoever owns them.
	DataVolume *cdiv1.DataVolume
	Claim      *corev1.PersistentVolumeClaim
	// DefaultClass is the class of a disk that names none; empty: the cluster's own default.
	DefaultClass string
	// Images tells where golden images are.
	Images clone.Images
	// SourceClaim is the claim of the disk that this one is made from, if it is made from one.
	SourceClaim string
	// Growth is looked at once the disk has a claim.
	Growth Growth
	// Refusal is set when an action was refused: the creation of the DataVolume, a change of its annotations, or a step of growing.
	Refusal *action.Refusal
}

// Reasons of Ready.
const (
	Accepted          = "Accepted"
	SourceNotServed   = "SourceNotServed"
	DataVolumeExists  = "DataVolumeExists"
	DataVolumeRefused = "DataVolumeRefused"
	// ClassCannotGrow: the disk is asked to grow, and its class does not let volumes grow.
	ClassCannotGrow = "ClassCannotGrow"
	// GrowthRefused: the API server refuses to let the claim ask for more, as for a quota.
	GrowthRefused = "GrowthRefused"
)

// Reasons of WorkloadsReady.
const (
	Succeeded          = "Succeeded"
	WaitingForConsumer = "WaitingForConsumer"
	DataVolumeNotReady = "DataVolumeNotReady"
)

// refusedAgain is how long to wait before asking again for a DataVolume that was refused.
const refusedAgain = 30 * time.Second

// Plan decides what a VMDisk needs next.
func Plan(w World, now time.Time) action.Decision[v1alpha1.VMDiskStatus] {
	d := action.Decision[v1alpha1.VMDiskStatus]{Status: *w.Disk.Status.DeepCopy()}
	ready, workloads, growth := w.ready(), w.workloads(), w.growth(now)
	if ready.Reason == Accepted && growth.ready != nil {
		ready = *growth.ready
	}
	switch {
	case w.DataVolume == nil && ready.Reason == Accepted:
		d.Actions = []action.Action{action.Create{Object: w.render()}}
	case w.DataVolume != nil && w.owned():
		d.Actions = w.follow()
	}
	d.Actions, d.Again = append(d.Actions, growth.actions...), growth.again
	if w.Refusal != nil {
		d.Again = refusedAgain
	}
	d.Events = append(w.events(ready, workloads), w.growthEvents(growth.resizing)...)
	d.Status.ObservedGeneration = w.Disk.Generation
	d.Status.Phase, d.Status.Progress, d.Status.DataVolume = "", "", ""
	if w.DataVolume != nil && w.owned() {
		d.Status.DataVolume = w.DataVolume.Name
		d.Status.Phase = string(w.DataVolume.Status.Phase)
		d.Status.Progress = string(w.DataVolume.Status.Progress)
	}
	d.Status.Clone = w.clone()
	d.Status.StorageClass = w.class()
	d.Status.Size = w.size()
	conditions := []metav1.Condition{ready, workloads}
	if growth.resizing != nil {
		conditions = append(conditions, *growth.resizing)
	} else {
		meta.RemoveStatusCondition(&d.Status.Conditions, v1alpha1.ConditionResizing)
	}
	for _, c := range conditions {
		c.ObservedGeneration = w.Disk.Generation
		c.LastTransitionTime = metav1.Time{Time: now}
		meta.SetStatusCondition(&d.Status.Conditions, c)
	}
	return d
}

func (w World) owned() bool { return metav1.IsControlledBy(w.DataVolume, w.Disk) }

// ready speaks of the spec only.
func (w World) ready() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	switch source := unserved(w.Disk.Spec.Source); {
	case source != "":
		c.Reason = SourceNotServed
		c.Message = fmt.Sprintf("this version of vmdisk does not serve source.%s: use source.http, image or disk, or no source for a blank disk", source)
	case w.DataVolume != nil && !w.owned():
		c.Reason = DataVolumeExists
		c.Message = fmt.Sprintf("DataVolume %s exists already and is not this disk's: delete it, or choose another name for the disk", w.DataVolume.Name)
	case w.Refusal != nil && !w.growthRefused():
		c.Reason = DataVolumeRefused
		c.Message = cause.OfRefusal("DataVolume "+w.Disk.Name, w.Refusal.Text).Sentence
	default:
		c.Status, c.Reason = metav1.ConditionTrue, Accepted
		c.Message = fmt.Sprintf("the disk is made through DataVolume %s", w.Disk.Name)
	}
	return c
}

// unserved names the source's member that this version can't fill disks from.
func unserved(s *v1alpha1.Source) string {
	switch {
	case s == nil:
		return ""
	case s.Upload != nil:
		return "upload"
	default:
		return ""
	}
}

// made is the size that the disk's DataVolume was made with; nil where there is none, or it says none.
func (w World) made() *resource.Quantity {
	if w.DataVolume == nil || !w.owned() || w.DataVolume.Spec.Storage == nil {
		return nil
	}
	if q, ok := w.DataVolume.Spec.Storage.Resources.Requests[corev1.ResourceStorage]; ok {
		return &q
	}
	return nil
}

// size is what the guest sees, or is to see.
func (w World) size() string {
	switch have, wanted := w.have(), w.Disk.Spec.Storage; {
	case have == nil && wanted == nil:
		return ""
	case have == nil, wanted != nil && have.Cmp(*wanted) == 0:
		return wanted.String()
	default:
		return have.String()
	}
}

// workloads speaks of the bytes.
func (w World) workloads() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionWorkloadsReady, Status: metav1.ConditionFalse, Reason: DataVolumeNotReady}
	if w.DataVolume == nil || !w.owned() {
		c.Message = fmt.Sprintf("DataVolume %s is not there yet", w.Disk.Name)
		if ready := w.ready(); ready.Status == metav1.ConditionFalse {
			c.Message = ready.Message
		}
		return c
	}
	switch w.DataVolume.Status.Phase {
	case cdiv1.Succeeded:
		c.Status, c.Reason = metav1.ConditionTrue, Succeeded
		c.Message = fmt.Sprintf("DataVolume %s is Succeeded: the disk holds its bytes", w.DataVolume.Name)
	case cdiv1.WaitForFirstConsumer, cdiv1.PendingPopulation:
		if _, troubled := w.troubled(); troubled || w.Disk.Spec.Immediate() {
			c.Message = w.sentence(w.why())
			break
		}
		c.Status, c.Reason = metav1.ConditionTrue, WaitingForConsumer
		c.Message = fmt.Sprintf("DataVolume %s is %s: with bindImmediately off, the disk is filled when its virtual machine starts", w.DataVolume.Name, w.DataVolume.Status.Phase)
	default:
		c.Message = w.sentence(w.why())
	}
	return c
}

// sentence names the DataVolume and its phase, and why it is no further.
func (w World) sentence(why string) string {
	dv := w.DataVolume
	phase := string(dv.Status.Phase)
	if phase == "" {
		phase = "not started"
	}
	text := fmt.Sprintf("DataVolume %s is %s", dv.Name, phase)
	if why != "" {
		text += ": " + why
	}
	return text
}

// why is the message that says most: of the trouble if there is any, else of the worker, else of the claim while it is not bound.
func (w World) why() string {
	if c, troubled := w.troubled(); troubled {
		return c.Message
	}
	if c := w.told(cdiv1.DataVolumeRunning); c.Message != "" {
		return c.Message
	}
	if c := w.told(cdiv1.DataVolumeBound); c.Status != corev1.ConditionTrue {
		return c.Message
	}
	return ""
}

func (w World) told(kind cdiv1.DataVolumeConditionType) cdiv1.DataVolumeCondition {
	return Told(w.DataVolume, kind)
}

// Told is a condition of a DataVolume; empty if it has none of the kind.
func Told(dv *cdiv1.DataVolume, kind cdiv1.DataVolumeConditionType) cdiv1.DataVolumeCondition {
	for _, c := range dv.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return cdiv1.DataVolumeCondition{}
}

// class is the class that the disk lives in, or is to live in. A claim that an earlier disk of the name has left says nothing of this one.
func (w World) class() string {
	own := w.DataVolume != nil && w.owned() && w.Claim != nil && metav1.IsControlledBy(w.Claim, w.DataVolume)
	if own && w.Claim.Spec.StorageClassName != nil {
		return *w.Claim.Spec.StorageClassName
	}
	return cmp.Or(w.Disk.Spec.StorageClass, w.DefaultClass)
}

// render is the DataVolume that makes the disk: the disk's name, owned by it. Volume mode and access modes are left to the class's profile.
func (w World) render() *cdiv1.DataVolume {
	disk := w.Disk
	dv := &cdiv1.DataVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: cdiv1.SchemeGroupVersion.String(), Kind: "DataVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       disk.Namespace,
			Name:            disk.Name,
			Labels:          maps.Clone(disk.Labels),
			Annotations:     map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(disk, v1alpha1.GroupVersion.WithKind("VMDisk"))},
		},
		Spec: cdiv1.DataVolumeSpec{Source: w.source(), Storage: &cdiv1.StorageSpec{}},
	}
	maps.Copy(dv.Annotations, w.annotations())
	if disk.Spec.Storage != nil {
		dv.Spec.Storage.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *disk.Spec.Storage}
	}
	if class := w.class(); class != "" {
		dv.Spec.Storage.StorageClassName = &class
	}
	return dv
}

// annotations are what a DataVolume is told by annotations.
func (w World) annotations() map[string]string {
	told := map[string]string{}
	if w.Disk.Spec.Immediate() {
		told[cdi.BindImmediate] = "true"
	}
	if w.Disk.Spec.Optical {
		told[v1alpha1.OpticalAnnotation] = "true"
	}
	if wish := w.Disk.Annotations[v1alpha1.RetryAnnotation]; wish != "" {
		told[v1alpha1.RetryAnnotation] = wish
	}
	if p := w.Disk.Spec.Placement.Encode(); p != "" {
		told[v1alpha1.PlacementAnnotation] = p
	}
	return told
}

// follow lets the DataVolume follow what may change in the disk's spec: how it is presented, where its workers run, and that it is no longer to wait. What was
// not to wait can't be made to wait again.
func (w World) follow() []action.Action {
	have, told := w.DataVolume.Annotations, w.annotations()
	if _, optical := told[v1alpha1.OpticalAnnotation]; !optical && have[v1alpha1.OpticalAnnotation] == "true" {
		told[v1alpha1.OpticalAnnotation] = "false"
	}
	if _, placed := told[v1alpha1.PlacementAnnotation]; !placed && have[v1alpha1.PlacementAnnotation] != "" {
		told[v1alpha1.PlacementAnnotation] = ""
	}
	maps.DeleteFunc(told, func(key, value string) bool { return have[key] == value })
	if len(told) == 0 {
		return nil
	}
	return []action.Action{action.Annotate{Object: w.DataVolume, Annotations: told}}
}

func (w World) source() *cdiv1.DataVolumeSource {
	s := w.Disk.Spec.Source
	switch {
	case s != nil && s.Image != nil:
		return &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Namespace: w.Images.Namespace, Name: w.Images.Prefix + s.Image.Name}}
	case s != nil && s.Disk != nil:
		return &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Namespace: w.Disk.Namespace, Name: cmp.Or(w.SourceClaim, s.Disk.Name)}}
	case s == nil || s.HTTP == nil:
		return &cdiv1.DataVolumeSource{Blank: &cdiv1.DataVolumeBlankImage{}}
	}
	return &cdiv1.DataVolumeSource{HTTP: &cdiv1.DataVolumeSourceHTTP{
		URL:                s.HTTP.URL,
		Checksum:           s.HTTP.Checksum,
		SecretRef:          s.HTTP.SecretRef,
		CertConfigMap:      s.HTTP.CertConfigMap,
		ExtraHeaders:       s.HTTP.ExtraHeaders,
		SecretExtraHeaders: s.HTTP.SecretExtraHeaders,
	}}
}

// clone is how the DataVolume says that it is made from another volume.
func (w World) clone() *v1alpha1.CloneStatus {
	if w.DataVolume == nil || !w.owned() {
		return nil
	}
	var s v1alpha1.CloneStatus
	if json.Unmarshal([]byte(w.DataVolume.Annotations[v1alpha1.CloneAnnotation]), &s) != nil || s.Strategy == "" {
		return nil
	}
	return &s
}
