package populate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
)

func TestWhichVolumeIsReserved(t *testing.T) {
	reserved := func(name, namespace, claim string, uid types.UID) corev1.PersistentVolume {
		return corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim, UID: uid}}}
	}
	others := []corev1.PersistentVolume{
		{ObjectMeta: metav1.ObjectMeta{Name: "free"}},
		reserved("of-another-namespace", "tenant-b", "web-root", ""),
		reserved("of-another-claim", "tenant-a", "web-data", ""),
		reserved("of-an-earlier-claim", "tenant-a", "web-root", "gone"),
	}
	if v := StaticVolume(dataVolume(nil), others); v != nil {
		t.Errorf("it is %s, want none", v.Name)
	}
	if v := StaticVolume(dataVolume(nil), append(others, reserved("kept", "tenant-a", "web-root", ""))); v == nil || v.Name != "kept" {
		t.Errorf("it is %+v, want kept", v)
	}
}

// TestAClaimForAStaticVolumeIsWhatTheVolumeIs: nothing else could be bound to it, and nothing ever fills it.
func TestAClaimForAStaticVolumeIsWhatTheVolumeIs(t *testing.T) {
	m := stories()["static-volume"].sim()
	m.settle()
	type made struct {
		Volume, Class string
		Modes         []corev1.PersistentVolumeAccessMode
		Mode          corev1.PersistentVolumeMode
		PopulatedFor  string
	}
	c := m.world.Claim
	want := made{"kept", "local", []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, corev1.PersistentVolumeFilesystem, "web-root"}
	if diff := cmp.Diff(want, made{c.Spec.VolumeName, *c.Spec.StorageClassName, c.Spec.AccessModes, *c.Spec.VolumeMode, c.Annotations[cdi.PopulatedFor]}); diff != "" {
		t.Error(diff)
	}
	m.bind()
	m.settle()
	if m.world.Worker != nil {
		t.Error("a worker writes to a volume that has its bytes")
	}
}

// TestNothingThatHoldsItsBytesIsEverFilled: whatever brings a claim that is marked, no worker is made for it.
func TestNothingThatHoldsItsBytesIsEverFilled(t *testing.T) {
	for name, annotation := range map[string]string{
		"a disk that is restored": cdi.PrePopulated, "a disk that is adopted": cdi.AllowClaimAdoption, "a disk on a static volume": cdi.CheckStaticVolume,
		"a disk like any other": "",
	} {
		for _, phase := range []corev1.PersistentVolumeClaimPhase{corev1.ClaimPending, corev1.ClaimBound} {
			t.Run(name+", "+string(phase), func(t *testing.T) {
				dv := dataVolume(nil)
				if annotation != "" {
					dv.Annotations[annotation] = "true"
				}
				m := newSim(dv, immediateClass)
				m.world.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
					Namespace: "tenant-a", Name: "web-root", UID: "kept", Annotations: map[string]string{cdi.PopulatedFor: "web-root"}}}
				m.world.Claim.Status.Phase = phase
				m.settle()
				m.bind()
				m.settle()
				if m.world.Worker != nil || m.world.DataVolume.Status.Phase != "Succeeded" {
					t.Errorf("the disk is %s, its worker %v\n%s", m.world.DataVolume.Status.Phase, m.world.Worker, m.log.String())
				}
			})
		}
	}
}
