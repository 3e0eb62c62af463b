// Package action is the closed set of things that vmdisk does to a cluster, as values that a test can compare. Deciding
// (package plan) makes them, package kube carries them out; nothing else writes.
package action

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is any object of the API.
type Object interface {
	metav1.Object
	runtime.Object
}

// Action is one of Create, Delete, Annotate, Own, Expand, Reclaim and Hand. Each may be carried out twice without harm.
type Action interface {
	fmt.Stringer
	isAction()
}

// Create makes an object. One that exists already is taken as made.
type Create struct{ Object Object }

// Delete deletes an object, if it still has the UID that it had when it was observed.
type Delete struct{ Object Object }

// Annotate sets annotations on an object, if it is still as it was observed.
type Annotate struct {
	Object      Object
	Annotations map[string]string
}

// Own makes Owner the controller of an object that has none, if it is still as it was observed.
type Own struct {
	Object Object
	Owner  metav1.OwnerReference
}

// Expand raises what a claim asks for to Bytes and sets annotations on it, in one change, if it is still as it was observed.
type Expand struct {
	Claim       *corev1.PersistentVolumeClaim
	Bytes       int64
	Annotations map[string]string
}

// Reclaim sets what becomes of a volume once its claim is gone, and with it a mark that says why, if the volume is still as it was
// observed. An empty Mark removes the annotation.
type Reclaim struct {
	Volume    *corev1.PersistentVolume
	Policy    corev1.PersistentVolumeReclaimPolicy
	Key, Mark string
}

// Hand gives a volume to another claim, by its namespace, name and UID in one write, if the volume is still as it was observed.
type Hand struct {
	Volume *corev1.PersistentVolume
	Claim  *corev1.PersistentVolumeClaim
}

func (Create) isAction()   {}
func (Delete) isAction()   {}
func (Annotate) isAction() {}
func (Own) isAction()      {}
func (Expand) isAction()   {}
func (Reclaim) isAction()  {}
func (Hand) isAction()     {}

func (a Create) String() string   { return "create " + name(a.Object) }
func (a Delete) String() string   { return "delete " + name(a.Object) }
func (a Annotate) String() string { return "annotate " + name(a.Object) }
func (a Own) String() string      { return "own " + name(a.Object) }
func (a Expand) String() string {
	return fmt.Sprintf("expand %s to %s", name(a.Claim), resource.NewQuantity(a.Bytes, resource.BinarySI))
}
func (a Reclaim) String() string {
	return fmt.Sprintf("let PersistentVolume %s be reclaimed by %s", a.Volume.Name, a.Policy)
}
func (a Hand) String() string {
	return fmt.Sprintf("hand PersistentVolume %s to claim %s/%s", a.Volume.Name, a.Claim.Namespace, a.Claim.Name)
}

func name(o Object) string {
	return fmt.Sprintf("%s %s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())
}

// Refusal is the API server's no to an action: the request was understood and denied, and will be again until
// something changes. Text is the server's own words.
type Refusal struct {
	Action Action
	Text   string
}

// Event is one line of an object's story. Type is "Normal" or "Warning".
type Event struct {
	Type    string
	Reason  string
	Message string
}

// Decision is what a reconciler is to do: the actions in order, then the status, then the events.
type Decision[Status any] struct {
	Actions []Action
	Status  Status
	Events  []Event
	// Again is when to look again although nothing has changed; 0: a change will wake us.
	Again time.Duration
}
