package measure

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
)

func dataVolume(uid string, phase cdiv1.DataVolumePhase, change func(*cdiv1.DataVolume)) cdiv1.DataVolume {
	dv := cdiv1.DataVolume{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Spec: cdiv1.DataVolumeSpec{Storage: &cdiv1.StorageSpec{}}}
	dv.Status.Phase, dv.Status.Progress = phase, "N/A"
	if change != nil {
		change(&dv)
	}
	return dv
}

func waits(reason string) func(*cdiv1.DataVolume) {
	return func(dv *cdiv1.DataVolume) {
		dv.Status.ClaimName = dv.Name
		dv.Status.Conditions = []cdiv1.DataVolumeCondition{{Type: cdiv1.DataVolumeRunning, Status: corev1.ConditionFalse, Reason: reason, Message: "it waits"}}
	}
}

func runs(progress string, restarts int32) func(*cdiv1.DataVolume) {
	return func(dv *cdiv1.DataVolume) {
		dv.Status.ClaimName, dv.Status.Progress, dv.Status.RestartCount = dv.Name, cdiv1.DataVolumeProgress(progress), restarts
	}
}

// lines are the samples that are not 0, as Prometheus would show them without the labels' names.
func lines(samples []Sample) []string {
	var all []string
	for _, s := range samples {
		if s.Value != 0 {
			all = append(all, fmt.Sprintf("%s{%s} %v", s.Name, strings.Join(s.Labels, ","), s.Value))
		}
	}
	return all
}

func TestWhatIsMeasured(t *testing.T) {
	class := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "replicated", Annotations: map[string]string{cdi.DefaultVirtClass: "true"}}, Provisioner: "p"}
	profile := cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: "replicated"}}
	profile.Status.ClaimPropertySets = []cdiv1.ClaimPropertySet{{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}}
	profile.Status.CloneStrategy = new(cdiv1.CloneStrategyCsiClone)
	deployed := cdiv1.CDI{}
	deployed.Status.Phase = "Deployed"
	orphan := cdiv1.StorageProfile{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	plain := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Provisioner: "q"}
	for name, c := range map[string]struct {
		world World
		want  []string
	}{
		"nothing": {World{}, nil},
		"a cluster that is fit": {
			World{CDIs: []cdiv1.CDI{deployed}, Classes: []storagev1.StorageClass{class}, Profiles: []cdiv1.StorageProfile{profile, orphan},
				DataVolumes: []cdiv1.DataVolume{dataVolume("a", cdiv1.PhaseUnset, nil)}},
			[]string{"vmdisk_disks{Unset} 1", "kubevirt_cdi_cr_ready{} 1", "kubevirt_cdi_storageprofile_info{replicated,p,true,false,true,true,true,false} 1"},
		},
		"a class that nothing is known of": {
			World{Classes: []storagev1.StorageClass{plain}, Profiles: []cdiv1.StorageProfile{{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}}},
			[]string{"kubevirt_cdi_storageprofile_info{plain,q,false,false,false,false,false,true} 1"},
		},
		"two CDI objects": {World{CDIs: []cdiv1.CDI{deployed, deployed}}, nil},
		"disks without a default class": {
			World{Classes: []storagev1.StorageClass{plain}, DataVolumes: []cdiv1.DataVolume{
				dataVolume("a", cdiv1.PhaseUnset, nil),
				dataVolume("b", cdiv1.Pending, func(dv *cdiv1.DataVolume) { dv.Spec.Storage.StorageClassName = new("plain") }),
				dataVolume("c", cdiv1.PhaseUnset, func(dv *cdiv1.DataVolume) {
					dv.Spec.Storage, dv.Spec.PVC = nil, &corev1.PersistentVolumeClaimSpec{}
				}),
				dataVolume("d", cdiv1.Succeeded, nil),
			}},
			[]string{"vmdisk_disks{Pending} 1", "vmdisk_disks{Succeeded} 1", "vmdisk_disks{Unset} 2", "kubevirt_cdi_datavolume_pending{} 2"},
		},
		"disks that are filled and disks that wait": {
			World{DataVolumes: []cdiv1.DataVolume{
				dataVolume("a", cdiv1.ImportInProgress, runs("41.75%", 4)),
				dataVolume("b", cdiv1.ImportInProgress, runs("N/A", 3)),
				dataVolume("c", cdiv1.ImportScheduled, waits("Unschedulable")),
				dataVolume("d", cdiv1.Pending, waits("SomebodysOwnWord")),
				dataVolume("e", cdiv1.Failed, waits("Error")),
				dataVolume("f", cdiv1.Succeeded, runs("100.0%", 9)),
			}},
			[]string{"vmdisk_disks{Failed} 1", "vmdisk_disks{ImportInProgress} 2", "vmdisk_disks{ImportScheduled} 1", "vmdisk_disks{Pending} 1", "vmdisk_disks{Succeeded} 1",
				"vmdisk_disks_waiting{Other} 1", "vmdisk_disks_waiting{Unschedulable} 1",
				"kubevirt_cdi_import_pods_high_restart{} 1", "kubevirt_cdi_import_progress_total{a} 41.75"},
		},
		"beside CDI only our own": {
			World{CDIServes: true, CDIs: []cdiv1.CDI{deployed}, DataVolumes: []cdiv1.DataVolume{dataVolume("a", cdiv1.ImportInProgress, runs("1.00%", 4))}},
			[]string{"vmdisk_disks{ImportInProgress} 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lines(Of(c.world))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
