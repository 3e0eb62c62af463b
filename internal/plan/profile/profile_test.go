package profile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
)

func TestStatus(t *testing.T) {
	now := metav1.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	set := func(m corev1.PersistentVolumeMode, a corev1.PersistentVolumeAccessMode) cdiv1.ClaimPropertySet {
		return cdiv1.ClaimPropertySet{AccessModes: []corev1.PersistentVolumeAccessMode{a}, VolumeMode: &m}
	}
	condition := func(status corev1.ConditionStatus, reason, message string) []cdiv1.StorageProfileCondition {
		c := cdiv1.StorageProfileCondition{Type: cdiv1.StorageProfileRecognized}
		c.Status, c.Reason, c.Message, c.LastTransitionTime, c.LastHeartbeatTime = status, reason, message, now, now
		return []cdiv1.StorageProfileCondition{c}
	}
	const block, files, once, many = corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem, corev1.ReadWriteOnce, corev1.ReadWriteMany
	for name, c := range map[string]struct {
		provisioner string
		annotations map[string]string
		spec        cdiv1.StorageProfileSpec
		want        cdiv1.StorageProfileStatus
	}{
		"a known driver brings its modes and its way to clone": {
			provisioner: "linstor.csi.linbit.com",
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many), set(block, once), set(files, once)},
				CloneStrategy:     new(cdiv1.CloneStrategyCsiClone),
				Conditions:        condition(corev1.ConditionTrue, Recognized, ""),
			},
		},
		"an unknown driver gets what every driver can do, and it is said": {
			provisioner: "plain.csi.lab",
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(files, once)},
				Conditions:        condition(corev1.ConditionFalse, Unrecognized, "provisioner plain.csi.lab is not known to vmdisk, so disks get ReadWriteOnce and Filesystem: if it can do better, set claimPropertySets in this profile's spec"),
			},
		},
		"the administrator's word wins": {
			provisioner: "plain.csi.lab",
			spec:        cdiv1.StorageProfileSpec{ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many)}, CloneStrategy: new(cdiv1.CloneStrategyHostAssisted)},
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many)},
				CloneStrategy:     new(cdiv1.CloneStrategyHostAssisted),
				Conditions:        condition(corev1.ConditionFalse, Unrecognized, "provisioner plain.csi.lab is not known to vmdisk; the claimPropertySets of this profile's spec are used"),
			},
		},
		"the class's annotation comes before the driver's way": {
			provisioner: "linstor.csi.linbit.com",
			annotations: map[string]string{cdi.CloneStrategyAnnotation: "copy"},
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many), set(block, once), set(files, once)},
				CloneStrategy:     new(cdiv1.CloneStrategyHostAssisted),
				Conditions:        condition(corev1.ConditionTrue, Recognized, ""),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: c.annotations}, Provisioner: c.provisioner}
			c.want.StorageClass, c.want.Provisioner = &class.Name, &class.Provisioner
			got := Status(&cdiv1.StorageProfile{Spec: c.spec}, class, now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			again := Status(&cdiv1.StorageProfile{Spec: c.spec, Status: got}, class, metav1.Time{Time: now.Add(time.Hour)})
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("an hour later nothing has changed, and yet: %s", diff)
			}
		})
	}
}
