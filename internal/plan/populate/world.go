// Package populate decides what a DataVolume needs next. Its input is a World, everything that was seen of one DataVolume;
// its output is a decision. docs/STATES.md tells in prose what the steps in claim.go and attempt.go decide.
package populate

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/plan/clone"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/pod"
)

// World is what was seen of one DataVolume. What doesn't exist is nil.
type World struct {
	DataVolume *cdiv1.DataVolume
	// Claim is the claim with the DataVolume's name, whoever owns it.
	Claim *corev1.PersistentVolumeClaim
	// Static is the PersistentVolume that is reserved for the claim, where the DataVolume asks to look for one.
	Static *corev1.PersistentVolume
	// Clone is what was seen of the source of a disk that is made from another volume; nil for another disk, and once there is a claim that
	// holds its bytes.
	Clone *Clone
	// Away is what was seen of a volume that is made in another namespace; nil while there is no claim for it, and once that has it.
	Away *Away
	// Images tells where golden images are, which disks may be made from in every namespace.
	Images clone.Images
	// Worker is the claim's worker pod.
	Worker *corev1.Pod
	// Warnings are the Warning events about the claim and the worker, the newest last.
	Warnings []corev1.Event
	// Log is the end of the worker's log; nil where it can't be read, or isn't worth it.
	Log *Log
	// Node is the worker's.
	Node *corev1.Node
	// Active is how many disks are being filled just now.
	Active int
	// Line is who is to go first where a quota has little room. It is read only while there is no claim, or no worker.
	Line Line
	// Cluster holds the classes, their profiles and the configuration.
	Cluster volume.Cluster
	// Settings are the installation's settings for workers, Deadlines those for drivers that clone.
	Settings  pod.Settings
	Deadlines Deadlines
	// Refusal is set when the first action of a decision was refused: then this is that decision's second look.
	Refusal *action.Refusal
}

// Log is the end of a worker's log.
type Log struct {
	// Progress is the last that it shows.
	Progress job.Progress
	// At is when its last line was written, by the node's clock; zero while there is none.
	At time.Time
}

// WantsLog says whether the worker's log is worth reading: while it runs, and once it has ended without a word. A node that doesn't answer is not asked.
func (w World) WantsLog() bool {
	if _, lost := w.lost(); w.Worker == nil || lost {
		return false
	}
	if w.Worker.Status.Phase == corev1.PodRunning {
		return true
	}
	_, _, over := endOf(w.Worker, time.Time{})
	return over && !spoke(w.Worker) && recall(w.DataVolume, w.Claim.UID).Pod != w.Worker.UID
}

// lost says in words that the worker's node has stopped answering.
func (w World) lost() (string, bool) {
	if w.Node == nil {
		return "", false
	}
	for _, c := range w.Node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("node %s is not ready since %s (%s)", w.Node.Name, c.LastTransitionTime.UTC().Format("15:04:05 MST"), strings.TrimRight(c.Message, ".")), true
		}
	}
	return "", false
}

// owned says whether the DataVolume controls the claim.
func (w World) owned() bool { return metav1.IsControlledBy(w.Claim, w.DataVolume) }

// populated says whether the claim is known to hold the DataVolume's bytes.
func (w World) populated() bool {
	a := w.Claim.Annotations
	return a[cdi.PopulatedFor] == w.DataVolume.Name || a[cdi.PodPhase] == string(corev1.PodSucceeded)
}

// Adoptable says whether a claim that nobody controls may become the DataVolume's as it is.
func Adoptable(dv *cdiv1.DataVolume, claim *corev1.PersistentVolumeClaim) bool {
	if metav1.GetControllerOf(claim) != nil {
		return false
	}
	_, restored := dv.Annotations[cdi.PrePopulated]
	return restored || dv.Annotations[cdi.AllowClaimAdoption] == "true" || claim.Annotations[cdi.PopulatedFor] == dv.Name
}

// Owned says whether some DataVolume controls a claim.
func Owned(claim *corev1.PersistentVolumeClaim) bool {
	owner := metav1.GetControllerOf(claim)
	return owner != nil && owner.Kind == "DataVolume"
}

// immediate says whether somebody asks, on the DataVolume or on its claim, not to wait for a consumer.
func (w World) immediate() bool {
	_, asked := w.DataVolume.Annotations[cdi.BindImmediate]
	if w.Claim == nil {
		return asked
	}
	_, askedOfClaim := w.Claim.Annotations[cdi.BindImmediate]
	return asked || askedOfClaim
}
