package populate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/job"
)

// TestEveryKindOfClassWorksOrSaysWhatToSet is docs/classes.md as a table: a disk that names no class but the one that is asked for here.
func TestEveryKindOfClassWorksOrSaysWhatToSet(t *testing.T) {
	const immediate, waiting = storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer
	const once, pod, many = corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadWriteMany
	type result struct {
		Class   string
		Mode    corev1.PersistentVolumeAccessMode
		Phase   cdiv1.DataVolumePhase
		Message string // of Running if that has one, else of Bound
	}
	of := func(provisioner string, mode storagev1.VolumeBindingMode) storagev1.StorageClass {
		c := class("usual", mode)
		c.Provisioner = provisioner
		return c
	}
	older := class("older", immediate)
	older.CreationTimestamp = metav1.Time{Time: time.Unix(1, 0)}
	newer := class("newer", immediate)
	newer.CreationTimestamp = metav1.Time{Time: time.Unix(2, 0)}
	virt := class("for-machines", immediate)
	virt.Annotations = map[string]string{cdi.DefaultVirtClass: "true"}
	plain := class("plain", immediate)
	plain.Annotations = nil
	only := func(mode corev1.PersistentVolumeAccessMode) func(*sim) {
		return func(s *sim) {
			s.world.Cluster.Profiles[0].Status.ClaimPropertySets[0].AccessModes = []corev1.PersistentVolumeAccessMode{mode}
		}
	}
	at := func(at ...func(*sim)) []func(*sim) { return at }
	settle := func(s *sim) { s.settle() }
	now := func(s *sim) { s.world.DataVolume.Annotations[cdi.BindImmediate] = "" }
	unscheduled := func(message string) func(*sim) {
		return func(s *sim) {
			s.settle()
			s.world.Worker = s.world.Worker.DeepCopy()
			s.world.Worker.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}
		}
	}
	const waitsForHand = "PVC web-root Pending: StorageClass usual makes no volumes, so it waits for a PersistentVolume of that class that somebody makes: at least 20Gi, Block, [ReadWriteOnce]"
	for name, c := range map[string]struct {
		classes []storagev1.StorageClass
		do      []func(*sim)
		want    result
	}{
		"no class is the default": {[]storagev1.StorageClass{plain}, nil,
			result{Message: "no StorageClass is named and none is the cluster's default: set storageClassName, or mark a class as default with the annotation storageclass.kubernetes.io/is-default-class=true"}},
		"there is no class at all": {nil, nil,
			result{Message: "no StorageClass is named and none is the cluster's default: set storageClassName, or mark a class as default with the annotation storageclass.kubernetes.io/is-default-class=true"}},
		"several are: the newest": {[]storagev1.StorageClass{older, newer}, nil,
			result{"newer", once, "Pending", "PVC web-root Pending: csi.example has not made its volume yet"}},
		"one is for virtual machines": {[]storagev1.StorageClass{newer, virt}, nil,
			result{"for-machines", once, "Pending", "PVC web-root Pending: csi.example has not made its volume yet"}},
		"a driver that nobody knows, before its profile is there": {[]storagev1.StorageClass{of("who.knows", immediate)}, at(func(s *sim) { s.world.Cluster.Profiles = nil }),
			result{Message: "StorageProfile usual has no access mode: set accessModes in the DataVolume, or ask the administrator to set claimPropertySets in that StorageProfile's spec"}},
		"a driver that nobody knows": {[]storagev1.StorageClass{of("who.knows", immediate)}, nil,
			result{"usual", once, "Pending", "PVC web-root Pending: who.knows has not made its volume yet"}},
		"only ReadWriteMany": {[]storagev1.StorageClass{immediateClass}, at(only(many)),
			result{"replicated", many, "Pending", "PVC web-root Pending: csi.example has not made its volume yet"}},
		"only ReadWriteOncePod": {[]storagev1.StorageClass{immediateClass}, at(only(pod)),
			result{"replicated", pod, "Pending", "PVC web-root Pending: csi.example has not made its volume yet"}},
		"only ReadWriteOncePod, while the consumer has it": {[]storagev1.StorageClass{immediateClass},
			at(only(pod), settle, binds, unscheduled("0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.")),
			result{"replicated", pod, "ImportScheduled", "no node takes the worker: 0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode."}},
		"static local volumes": {[]storagev1.StorageClass{of(noProvisioner, waiting)}, nil,
			result{"usual", once, "WaitForFirstConsumer", waitsForHand}},
		"static local volumes, bound at once": {[]storagev1.StorageClass{of(noProvisioner, immediate)}, nil,
			result{"usual", once, "Pending", waitsForHand}},
		"static local volumes, and the worker is the consumer": {[]storagev1.StorageClass{of(noProvisioner, waiting)},
			at(now, unscheduled("0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.")),
			result{"usual", once, "ImportScheduled", "no node takes the worker: 0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."}},
		"devices that the worker may not open": {[]storagev1.StorageClass{immediateClass}, at(settle, binds, settle, half, func(s *sim) {
			s.end(job.Result{Outcome: job.TargetFailed, Reason: "Permission", Message: "user 107 may not open the block device: set device_ownership_from_security_context"})
		}), result{"replicated", once, "ImportInProgress", "user 107 may not open the block device: set device_ownership_from_security_context (attempt 1; the next try is at 20:00:05 UTC)"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSim(dataVolume(nil), c.classes...)
			for _, do := range c.do {
				do(m)
			}
			m.settle()
			got := result{Phase: m.world.DataVolume.Status.Phase}
			if claim := m.world.Claim; claim != nil {
				got.Class, got.Mode = *claim.Spec.StorageClassName, claim.Spec.AccessModes[0]
			}
			for _, kind := range []cdiv1.DataVolumeConditionType{cdiv1.DataVolumeBound, cdiv1.DataVolumeRunning} {
				if said, _ := find(m.world.DataVolume.Status.Conditions, kind); said.Message != "" && said.Status == corev1.ConditionFalse {
					got.Message = said.Message
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
