//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/lab/csi"
)

// cloneOf is a DataVolume that is made from a claim of its namespace, of a size; none: the source's.
func cloneOf(source, class, size string, change ...func(*cdiv1.DataVolume)) *cdiv1.DataVolume {
	dv := &cdiv1.DataVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "clone", Annotations: map[string]string{cdi.BindImmediate: ""}},
		Spec: cdiv1.DataVolumeSpec{
			Source:  &cdiv1.DataVolumeSource{PVC: &cdiv1.DataVolumeSourcePVC{Name: source}},
			Storage: &cdiv1.StorageSpec{StorageClassName: &class},
		},
	}
	if size != "" {
		dv.Spec.Storage.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	for _, c := range change {
		c(dv)
	}
	return dv
}

// clones makes a DataVolume of a claim in the tenant's own namespace.
func (n *tenant) clones(dv *cdiv1.DataVolume) {
	n.t.Helper()
	if pvc := dv.Spec.Source.PVC; pvc.Namespace == "" {
		pvc.Namespace = n.name
	}
	n.create(dv)
}

// madeBy is what a DataVolume tells of how it was made.
func (n *tenant) madeBy(name string) v1alpha1.CloneStatus {
	n.t.Helper()
	var s v1alpha1.CloneStatus
	text := get(n, name, &cdiv1.DataVolume{}).Annotations[v1alpha1.CloneAnnotation]
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		n.t.Fatalf("DataVolume %s says of how it is made %q: %v", name, text, err)
	}
	return s
}

// cloningClass is a class like another one, whose profile wishes for a strategy.
func (n *tenant) cloningClass(like, strategy string) string {
	n.t.Helper()
	class := get(n, like, &storagev1.StorageClass{})
	class.ObjectMeta = metav1.ObjectMeta{Name: n.name + "-" + strategy, Labels: map[string]string{tenantLabel: ""}, Annotations: map[string]string{cdi.CloneStrategyAnnotation: strategy}}
	if err := n.Create(n.t.Context(), class); err != nil {
		n.t.Fatalf("make a StorageClass: %v", err)
	}
	n.t.Cleanup(func() { n.deleteAnyway(class) })
	return class.Name
}

// A disk is cloned within its namespace in the way that its class allows, is what its source is, and leaves nothing of the work behind.
func TestCloneWithin(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		from, to, wish, size string
		strategy, reason     string
		copied               bool // a worker has written the bytes
	}{
		"by the driver":                             {blockNow, blockNow, "csi-clone", "", "csi-clone", "RemoteAccessAllowed", false},
		"by the driver, and grown":                  {blockNow, blockNow, "csi-clone", "768Mi", "csi-clone", "RemoteAccessAllowed", false},
		"by the driver, and grown, on a pinned one": {"generic", "generic", "csi-clone", "768Mi", "csi-clone", "", false},
		"by a snapshot":                             {blockNow, blockNow, "snapshot", "", "snapshot", "RemoteAccessAllowed", false},
		"by a snapshot, and grown":                  {"generic-immediate", "generic-immediate", "snapshot", "1Gi", "snapshot", "", false},
		"by a copy into another driver's class":     {blockNow, filesNow, "csi-clone", "", "host-assisted", "DriverMismatch", true},
		"by a copy to a device":                     {filesNow, blockNow, "", "768Mi", "host-assisted", "DriverMismatch", true},
		"by a copy that is wished for":              {blockNow, blockNow, "copy", "", "host-assisted", "CopyRequested", true},
		"by a copy where a clone would hang":        {blockNow, blockLocal, "csi-clone", "", "host-assisted", "", true},
		"by a copy where the driver does neither":   {filesNow, filesNow, "csi-clone", "", "host-assisted", "DriverCannotClone", true},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			source := newDisk(c.from, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)})
			n.create(source)
			n.becomesReady("disk")
			class := c.to
			if c.wish != "" {
				class = n.cloningClass(c.to, c.wish)
			}
			n.leftAlone("disk")
			work := n.countWork()
			n.clones(cloneOf("disk", class, c.size))
			n.succeeds("clone")
			made := n.madeBy("clone")
			if made.Strategy != c.strategy || c.reason != "" && made.Reason != c.reason || made.FellBack != (c.reason == "DriverCannotClone") {
				t.Errorf("it was made like this: %+v", made)
			}
			if got := work.amount(); (got.Written > 0) != c.copied {
				t.Errorf("the workers were %+v", got)
			}
			n.beginsWith("clone", reference(t))
			n.leavesOnly(get(n, "disk", source), get(n, "disk", &cdiv1.DataVolume{}), get(n, "disk", &corev1.PersistentVolumeClaim{}),
				get(n, "clone", &cdiv1.DataVolume{}), get(n, "clone", &corev1.PersistentVolumeClaim{}))
		})
	}
}

// What the driver can't clone is copied, once, with the driver's own words as the reason.
func TestCloneFallsBack(t *testing.T) {
	t.Parallel()
	claim := func(n *tenant) string { return n.name + "/clone" }
	tests := map[string]struct {
		wish   string
		fault  func(n *tenant) csi.Fault
		reason string
		words  string
	}{
		"the driver refuses":               {"csi-clone", func(n *tenant) csi.Fault { return clonesAnswer(claim(n), codes.InvalidArgument, "no clones today") }, "DriverRejectedClone", "no clones today"},
		"the driver fails again and again": {"csi-clone", func(n *tenant) csi.Fault { return clonesAnswer(claim(n), codes.Internal, "no suitable storage pools") }, "DriverRejectedClone", "no suitable storage pools"},
		"the snapshot fails":               {"snapshot", func(n *tenant) csi.Fault { return snapshotsFail(n.name+"/disk", "the pool has no snapshots") }, "SnapshotFailed", "the pool has no snapshots"},
		"the clone can't grow":             {"csi-clone", func(n *tenant) csi.Fault { return growingIsInfeasible(claim(n)) }, "ExpansionFailed", ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTenant(t)
			n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
			n.becomesReady("disk")
			n.faults(c.fault(n))
			n.clones(cloneOf("disk", n.cloningClass(blockNow, c.wish), "768Mi"))
			n.succeeds("clone")
			made := n.madeBy("clone")
			if !made.FellBack || made.Strategy != "host-assisted" || made.Reason != c.reason {
				t.Errorf("it was made like this: %+v", made)
			}
			n.tells("clone", c.reason, c.words)
			n.holds("clone", diskBytes, reference(t), -1)
			n.leavesOnly(get(n, "disk", &v1alpha1.VMDisk{}), get(n, "disk", &cdiv1.DataVolume{}), get(n, "disk", &corev1.PersistentVolumeClaim{}),
				get(n, "clone", &cdiv1.DataVolume{}), get(n, "clone", &corev1.PersistentVolumeClaim{}))
		})
	}
}

// A clone waits for its source, by name: until that is there, and while a pod uses it.
func TestCloneWaitsForItsSource(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	n.clones(cloneOf("disk", filesNow, ""))
	n.pends("clone", "SourceNotFound", "disk does not exist")
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL("slow/40000000/" + qcow2File)}))
	n.pends("clone", "SourceNotReady", "is not filled yet")
	n.becomesReady("disk")
	n.succeeds("clone")
	n.holds("clone", diskBytes, reference(t), -1)

	user := n.uses("disk")
	second := cloneOf("disk", filesNow, "")
	second.Name = "second"
	n.clones(second)
	n.pends("second", "SourceInUse", user.Name)
	n.deleteAnyway(user)
	n.succeeds("second")
}

// The disk of a consumer that may only run on node-b is cloned for it.
func TestCloneForAConsumerOnNodeB(t *testing.T) {
	t.Parallel()
	n := newTenant(t)
	n.create(newDisk(blockNow, &v1alpha1.HTTPSource{URL: plainURL(qcow2File)}))
	n.becomesReady("disk")
	n.clones(cloneOf("disk", blockLocal, "", func(dv *cdiv1.DataVolume) { dv.Annotations = nil }))
	n.eventually(filled, "it rests for its consumer", func() error {
		if phase := get(n, "clone", &cdiv1.DataVolume{}).Status.Phase; phase != cdiv1.WaitForFirstConsumer {
			return fmt.Errorf("its phase is %s", phase)
		}
		return nil
	})
	n.consume("clone", "node-b")
	n.succeeds("clone")
	n.holds("clone", diskBytes, reference(t), -1)
}

// beginsWith checks the first bytes of a disk, as many as a usual disk has.
func (n *tenant) beginsWith(claim, sum string) {
	n.t.Helper()
	v := n.volume(claim)
	if v.mode() == corev1.PersistentVolumeFilesystem {
		if got := n.inspect(v).first; got != sum {
			n.t.Errorf("the disk begins with the SHA-256 %s, want %s", got, sum)
		}
		return
	}
	n.holds(claim, diskBytes, sum, -1)
}

// uses starts a pod that has a device in its hands until it is deleted.
func (n *tenant) uses(claim string) *corev1.Pod {
	n.t.Helper()
	pod := restrictedPod("uses-"+claim, n.server().tools, "serve", "--dir=/", "--listen=:8080")
	pod.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
	pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/disk"}}
	n.create(pod)
	return pod
}

// deleteAnyway deletes an object that may be gone, also once the test has failed.
func (n *tenant) deleteAnyway(o client.Object) {
	n.t.Helper()
	if err := n.Delete(context.WithoutCancel(n.t.Context()), o); client.IgnoreNotFound(err) != nil {
		n.t.Errorf("delete %s: %v", o.GetName(), err)
	}
}

// pends waits until a DataVolume says why it waits.
func (n *tenant) pends(name, reason, words string) {
	n.t.Helper()
	n.eventually(filled, "it says "+reason, func() error {
		c := condition(get(n, name, &cdiv1.DataVolume{}), cdiv1.DataVolumeBound)
		if c.Reason != reason || !strings.Contains(c.Message, words) {
			return fmt.Errorf("it says %s: %s", c.Reason, c.Message)
		}
		return nil
	})
}

// tells wants an event about a DataVolume with a reason and some words.
func (n *tenant) tells(name, reason, words string) {
	n.t.Helper()
	n.eventually(30*time.Second, "an event says "+reason, func() error {
		var all corev1.EventList
		list(n, &all)
		for _, e := range all.Items {
			if e.InvolvedObject.Name == name && e.Reason == reason && strings.Contains(e.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
}
