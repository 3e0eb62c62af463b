//go:build apiserver

package kube_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/action"
)

// TestAVolumeIsHandedOver: the API server takes the changes of a rebind, each in one write, and refuses one from an old view.
func TestAVolumeIsHandedOver(t *testing.T) {
	w := start(t)
	subject := claim("subject")
	w.must(t, w.Create(t.Context(), subject))
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1", Annotations: map[string]string{"theirs": "stays"}}}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example", VolumeHandle: "1"}},
		ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "populator", Name: "temporary", UID: "temporary", ResourceVersion: "7"},
	}
	w.must(t, w.Create(t.Context(), volume))
	fresh := func() *corev1.PersistentVolume {
		got := &corev1.PersistentVolume{}
		w.must(t, w.Get(t.Context(), client.ObjectKeyFromObject(volume), got))
		return got
	}

	old := fresh()
	w.must(t, w.carry(t, subject, action.Reclaim{Volume: old, Policy: corev1.PersistentVolumeReclaimRetain, Key: "vmdisk.io/rebind", Mark: "{}"}))
	if got := fresh(); got.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain || got.Annotations["vmdisk.io/rebind"] != "{}" {
		t.Errorf("not held: %+v", got)
	}
	w.must(t, w.carry(t, subject, action.Hand{Volume: old, Claim: subject}))
	if got := fresh(); got.Spec.ClaimRef.UID != "temporary" {
		t.Errorf("an old view handed it over: %+v", got.Spec.ClaimRef)
	}
	w.must(t, w.carry(t, subject, action.Hand{Volume: fresh(), Claim: subject}))
	want := &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "tenant-a", Name: "subject", UID: subject.UID}
	if diff := cmp.Diff(want, fresh().Spec.ClaimRef); diff != "" {
		t.Error(diff)
	}
	w.must(t, w.carry(t, subject, action.Reclaim{Volume: fresh(), Policy: corev1.PersistentVolumeReclaimDelete, Key: "vmdisk.io/rebind"}))
	got := fresh()
	if diff := cmp.Diff(map[string]string{"theirs": "stays"}, got.Annotations); diff != "" || got.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("not as before: %s %s", got.Spec.PersistentVolumeReclaimPolicy, diff)
	}
}
