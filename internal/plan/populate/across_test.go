package populate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/api/v1alpha1"
	"vmdisk.io/vmdisk/internal/action"
	"vmdisk.io/vmdisk/internal/plan/clone"
)

// imageSim is a simulation of a disk of 20Gi that is made from a golden image.
func imageSim(plan clone.Plan, class storagev1.StorageClass, change func(*cdiv1.DataVolume)) *sim {
	s := cloneSim(plan, class, func(dv *cdiv1.DataVolume) {
		dv.Spec.Source.PVC.Namespace = "cozy-public"
		if change != nil {
			change(dv)
		}
	})
	s.world.Images = clone.Images{Namespace: "cozy-public"}
	s.away = &Away{Namespace: "cozy-public", Class: &class}
	return s
}

// seeAway has the controller read what is made in the source's namespace, as long as the disk isn't done.
func (s *sim) seeAway() {
	s.world.Away = nil
	if s.away == nil || s.world.Claim == nil || s.world.DataVolume.Status.Phase == cdiv1.Succeeded {
		return
	}
	a := *s.away
	s.world.Away = &a
}

func (s *sim) makeAway(dv *cdiv1.DataVolume) {
	if s.away.DataVolume == nil {
		dv.UID = s.uid()
		s.away.DataVolume = dv
	}
}

// deleteAway is the garbage collector: the claim goes with its DataVolume, and the volume with its claim, unless it is kept or another's.
func (s *sim) deleteAway(uid types.UID) {
	if s.away == nil {
		return
	}
	if s.away.DataVolume != nil && s.away.DataVolume.UID == uid {
		s.away.DataVolume = nil
	}
	if c := s.away.Claim; c != nil && (c.UID == uid || s.away.DataVolume == nil) {
		if v := s.away.Volume; v != nil && v.Spec.ClaimRef.UID == c.UID && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			s.away.Volume = nil
		}
		s.away.Claim = nil
	}
}

func (s *sim) changeVolume(a action.Action) {
	s.away.Volume = s.away.Volume.DeepCopy()
	switch a := a.(type) {
	case action.Reclaim:
		s.away.Volume.Spec.PersistentVolumeReclaimPolicy, s.away.Volume.Annotations = a.Policy, nil
		if a.Mark != "" {
			s.away.Volume.Annotations = map[string]string{a.Key: a.Mark}
		}
	case action.Hand:
		s.away.Volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: a.Claim.Namespace, Name: a.Claim.Name, UID: a.Claim.UID}
	}
}

// bindHanded is Kubernetes, which binds a claim to the volume that names it.
func (s *sim) bindHanded() {
	c := s.world.Claim
	if s.away == nil || s.away.Volume == nil || c == nil || s.away.Volume.Spec.ClaimRef.UID != c.UID || c.Spec.VolumeName != "" {
		return
	}
	s.world.Claim = c.DeepCopy()
	s.world.Claim.Spec.VolumeName, s.world.Claim.Status.Phase = s.away.Volume.Name, corev1.ClaimBound
}

// What the DataVolume in the source's namespace comes to.

func awayWaits(s *sim) {
	s.awayStatus(cdiv1.Pending, "N/A", cdiv1.DataVolumeCondition{Type: cdiv1.DataVolumeBound, Status: corev1.ConditionFalse, Reason: "SourceInUse", Message: "the image may be written to by pod vm"})
}

func awayHalf(s *sim) {
	s.away.DataVolume.Annotations[v1alpha1.CloneAnnotation] = `{"strategy":"host-assisted","reason":"UnreplicatedTarget","message":"the bytes are copied: LINSTOR would make independent copies","source":"PersistentVolumeClaim cozy-public/base"}`
	s.awayStatus(cdiv1.CloneInProgress, "50.00%", cdiv1.DataVolumeCondition{Type: cdiv1.DataVolumeBound, Status: corev1.ConditionTrue, Reason: "Bound"},
		cdiv1.DataVolumeCondition{Type: cdiv1.DataVolumeRunning, Status: corev1.ConditionTrue, Reason: "Pod is running"})
}

func awayFails(s *sim) {
	s.awayStatus(cdiv1.Failed, "N/A", cdiv1.DataVolumeCondition{Type: cdiv1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: "Error", Message: "the disk on the source is larger"})
}

func awaySucceeds(s *sim) {
	dv := s.away.DataVolume
	spec := *s.world.Claim.Spec.DeepCopy()
	spec.DataSourceRef, spec.VolumeName = nil, "pv-"+string(dv.UID)
	s.away.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "cozy-public", Name: dv.Name, UID: "away-" + dv.UID,
		Annotations: map[string]string{cdi.PopulatedFor: dv.Name}}, Spec: spec}
	s.away.Claim.Status.Phase = corev1.ClaimBound
	s.away.Volume = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: spec.VolumeName}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: *spec.StorageClassName, AccessModes: spec.AccessModes, VolumeMode: spec.VolumeMode, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
		ClaimRef: &corev1.ObjectReference{Namespace: "cozy-public", Name: dv.Name, UID: s.away.Claim.UID},
	}}
	s.awayStatus(cdiv1.Succeeded, "100.0%", cdiv1.DataVolumeCondition{Type: cdiv1.DataVolumeBound, Status: corev1.ConditionTrue, Reason: "Bound"})
}

func (s *sim) awayStatus(phase cdiv1.DataVolumePhase, progress cdiv1.DataVolumeProgress, conditions ...cdiv1.DataVolumeCondition) {
	s.away.DataVolume = s.away.DataVolume.DeepCopy()
	s.away.DataVolume.Status = cdiv1.DataVolumeStatus{Phase: phase, Progress: progress, Conditions: conditions}
}

// somebodyDeletesAway deletes what was made in the source's namespace.
func somebodyDeletesAway(s *sim) { s.deleteAway(s.away.DataVolume.UID) }

func consumerComes(s *sim) {
	s.world.Claim = s.world.Claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.world.Claim.ObjectMeta, selectedNode, "node-b")
}

func imageStories() map[string]story {
	now := func(dv *cdiv1.DataVolume) { dv.Annotations[cdi.BindImmediate] = "" }
	return map[string]story{
		"image-into-another-namespace": {
			func() *sim { return imageSim(copies(), immediateClass, nil) },
			[]line{{"created", created}, {"the image is in use", awayWaits}, {"the copy is half done", awayHalf}, {"it is done", awaySucceeds}},
		},
		"image-into-a-waiting-class-at-once": {
			func() *sim { return imageSim(copies(), waitingClass, now) },
			[]line{{"created", created}, {"the copy is half done", awayHalf}, {"it is done", awaySucceeds}},
		},
		"image-for-its-consumer": {
			func() *sim { return imageSim(copies(), waitingClass, nil) },
			[]line{{"created", created}, {"its machine is scheduled", consumerComes}, {"the copy is half done", awayHalf}, {"it is done", awaySucceeds}},
		},
		"image-whose-clone-is-deleted-before-it-is-handed-over": {
			func() *sim { return imageSim(copies(), immediateClass, nil) },
			[]line{{"created", created}, {"the copy is half done", awayHalf}, {"somebody deletes it", somebodyDeletesAway}, {"the next is done", awaySucceeds}},
		},
		"image-that-cannot-be-cloned": {
			func() *sim { return imageSim(copies(), immediateClass, nil) },
			[]line{{"created", created}, {"it fails for good", awayFails}},
		},
	}
}

func TestADiskOfAnImageIsMadeOnItsConsumersNode(t *testing.T) {
	s := imageSim(copies(), waitingClass, func(dv *cdiv1.DataVolume) { dv.Spec.ServiceAccountName = "tenant-a-only" })
	s.settle()
	if s.away.DataVolume != nil || s.world.DataVolume.Status.Phase != cdiv1.PendingPopulation {
		t.Fatalf("before its consumer is there it is %s, and %v is made", s.world.DataVolume.Status.Phase, s.away.DataVolume)
	}
	consumerComes(s)
	s.settle()
	dv := s.away.DataVolume
	if dv.Annotations[v1alpha1.SelectedNodeAnnotation] != "node-b" || dv.Spec.Source.PVC.Namespace != "cozy-public" || dv.Spec.ServiceAccountName != "" || *dv.Spec.Storage.StorageClassName != "local" {
		t.Errorf("%+v", dv)
	}
}

// TestACopyThatIsAskedForIsOneWhereverItIsMade: and the disk's claim says that its volume comes from elsewhere.
func TestACopyThatIsAskedForIsOneWhereverItIsMade(t *testing.T) {
	for asked, want := range map[string]string{"false": "false", "true": "", "": ""} {
		t.Run(asked, func(t *testing.T) {
			s := imageSim(copies(), immediateClass, func(dv *cdiv1.DataVolume) { dv.Annotations = map[string]string{cdi.UsePopulator: asked} })
			s.settle()
			if got := s.away.DataVolume.Annotations[cdi.UsePopulator]; got != want {
				t.Errorf("what is made elsewhere says %q, want %q", got, want)
			}
			if got := s.world.Claim.Annotations[cdi.UsePopulator]; got != "true" {
				t.Errorf("the claim says %q", got)
			}
		})
	}
}
