// Package status decides what a person is told who asks after one disk: what it is doing, since when, how far it is, what it waits for and
// what to do. It judges what was seen, mostly what the controllers say on the objects themselves, and so works for the disks of CDI, too.
// It is pure.
package status

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/job"
)

// Seen is what was seen of one disk at one time. What doesn't exist, or couldn't be read, is nil.
type Seen struct {
	Namespace, Name string
	At              time.Time
	// Disk is nil for a DataVolume that nobody made a VMDisk for.
	Disk       *v1alpha1.VMDisk
	DataVolume *cdiv1.DataVolume
	Claim      *corev1.PersistentVolumeClaim
	Worker     *corev1.Pod
	// Events are those about any of the objects, the newest last.
	Events []corev1.Event
	// Progress is the last progress line of the worker's log.
	Progress *job.Progress
	// Unread says in a sentence each what couldn't be read, and why.
	Unread []string
	// DataVolumeUnread says that there may be a DataVolume, which couldn't be read.
	DataVolumeUnread bool
}

// State is what matters most of a disk.
type State string

// The states.
const (
	// Ready: a virtual machine can use the disk, or the disk rests until its machine comes.
	Ready State = "Ready"
	// Working: it goes on, and nothing is wrong.
	Working State = "Working"
	// Waiting: it goes on by itself once something else changes.
	Waiting State = "Waiting"
	// Failed: it will not go on by itself.
	Failed State = "Failed"
	// Deleting: it goes.
	Deleting State = "Deleting"
)

// Report is what is told.
type Report struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Doing is what the disk is doing, such as "being filled".
	Doing string `json:"doing"`
	// Since is when that began, where it is known.
	Since *metav1.Time `json:"since,omitempty"`
	At    metav1.Time  `json:"at"`
	// About is what the disk is: its size, its class, its source.
	About    string    `json:"about,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	// Reason is the condition's that counts, Why its sentence: what is waited for, or what is wrong.
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"`
	// LastError is how an earlier attempt ended, while another one runs.
	LastError string `json:"lastError,omitempty"`
	// Notes are what is wrong or still to be done besides.
	Notes []string `json:"notes,omitempty"`
	// Do is what to do, a sentence each.
	Do []string `json:"do,omitempty"`
	// Parts are the objects that the disk is made of.
	Parts []Part `json:"parts,omitempty"`
	// Events are the last of those about the parts, the newest first.
	Events []Event `json:"events,omitempty"`
	// Unread is what couldn't be seen, a sentence each.
	Unread []string `json:"unread,omitempty"`
}

// Part is an object that the disk is made of.
type Part struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Is   string `json:"is"`
}

// Event is something that happened.
type Event struct {
	At      metav1.Time `json:"at"`
	Type    string      `json:"type"`
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Count   int32       `json:"count"`
}

// Of judges what was seen. An earlier look, nil for none, gives the present rate; otherwise it is the average since the worker began.
func Of(now Seen, before *Seen) Report {
	r := Report{
		Kind: "DataVolume", Namespace: now.Namespace, Name: now.Name, At: metav1.Time{Time: now.At},
		About: now.about(), Parts: now.parts(), Events: now.lastEvents(), Unread: now.Unread,
	}
	if now.Disk != nil {
		r.Kind = "VMDisk"
	}
	v := now.judge()
	r.State, r.Doing, r.Reason, r.Why, r.LastError, r.Do = v.state, v.doing, v.reason, v.why, v.lastError, v.do
	if !v.since.IsZero() {
		r.Since = &v.since
	}
	if v.runs {
		r.Progress = now.progress(before, v.since.Time)
	}
	r.Notes = now.notes(v)
	return r
}
