// Package measure says in numbers how a cluster's disks are, for Prometheus: what was seen in, samples out. It is pure.
package measure

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	sdkapi "kubevirt.io/controller-lifecycle-operator-sdk/api"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/disk"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// Name is a metric's name.
type Name string

// The metrics. Those of CDI mean what they mean there.
const (
	Ready       Name = "kubevirt_cdi_cr_ready"
	Pending     Name = "kubevirt_cdi_datavolume_pending"
	HighRestart Name = "kubevirt_cdi_import_pods_high_restart"
	Progress    Name = "kubevirt_cdi_import_progress_total"
	ProfileInfo Name = "kubevirt_cdi_storageprofile_info"
	Disks       Name = "vmdisk_disks"
	Waiting     Name = "vmdisk_disks_waiting"
)

// World is what was seen.
type World struct {
	CDIs        []cdiv1.CDI
	DataVolumes []cdiv1.DataVolume
	Classes     []storagev1.StorageClass
	Profiles    []cdiv1.StorageProfile
	// CDIServes says that CDI makes the disks, and so serves its own metrics.
	CDIServes bool
}

// Sample is one number. Labels are in the order in which the metric has them.
type Sample struct {
	Name   Name
	Labels []string
	Value  float64
}

// Of measures a cluster.
func Of(w World) []Sample {
	samples := append(w.phases(), w.waiting()...)
	if w.CDIServes {
		return samples
	}
	samples = append(samples, w.ready(), w.pending(), w.highRestart())
	return append(append(samples, w.progress()...), w.profiles()...)
}

// ready is 1 if there is the one CDI object that KubeVirt looks for, and it is deployed.
func (w World) ready() Sample {
	return Sample{Ready, nil, number(len(w.CDIs) == 1 && w.CDIs[0].Status.Phase == sdkapi.PhaseDeployed)}
}

// pending counts the DataVolumes that wait for a default class.
func (w World) pending() Sample {
	n := 0
	for i := range w.DataVolumes {
		if w.wantsDefault(&w.DataVolumes[i]) {
			n++
		}
	}
	return Sample{Pending, nil, float64(n)}
}

// wantsDefault says whether a DataVolume without a claim names no class, and there is no default for it.
func (w World) wantsDefault(dv *cdiv1.DataVolume) bool {
	switch {
	case dv.Status.ClaimName != "" || dv.Status.Phase == cdiv1.Succeeded:
		return false
	case dv.Spec.Storage != nil:
		return dv.Spec.Storage.StorageClassName == nil && volume.VirtDefault(w.Classes) == nil
	case dv.Spec.PVC != nil:
		return dv.Spec.PVC.StorageClassName == nil && volume.ClusterDefault(w.Classes) == nil
	default:
		return false
	}
}

// unusual is how many attempts are more than usual. CDI counts its pods' restarts; here each attempt is a pod of its own.
const unusual = 3

func (w World) highRestart() Sample {
	n := 0
	for _, dv := range w.DataVolumes {
		if filling(dv.Status.Phase) && dv.Status.RestartCount > unusual {
			n++
		}
	}
	return Sample{HighRestart, nil, float64(n)}
}

func filling(phase cdiv1.DataVolumePhase) bool {
	return phase == cdiv1.ImportScheduled || phase == cdiv1.ImportInProgress
}

// progress is the percentage of each disk that is being filled, by the DataVolume's UID: the only metric with a series for each disk,
// and only for as long.
func (w World) progress() []Sample {
	var samples []Sample
	for _, dv := range w.DataVolumes {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(string(dv.Status.Progress), "%"), 64)
		if err == nil && filling(dv.Status.Phase) {
			samples = append(samples, Sample{Progress, []string{string(dv.UID)}, percent})
		}
	}
	return samples
}

// phases counts the DataVolumes in each phase, with a zero where there is none, so that a series doesn't come and go.
func (w World) phases() []Sample {
	counts := map[string]int{}
	for _, phase := range []cdiv1.DataVolumePhase{cdiv1.PhaseUnset, cdiv1.Pending, cdiv1.WaitForFirstConsumer, cdiv1.ImportScheduled, cdiv1.ImportInProgress, cdiv1.Succeeded, cdiv1.Failed} {
		counts[phaseWord(phase)] = 0
	}
	for _, dv := range w.DataVolumes {
		counts[phaseWord(dv.Status.Phase)]++
	}
	return counted(Disks, counts)
}

func phaseWord(phase cdiv1.DataVolumePhase) string {
	if phase == cdiv1.PhaseUnset {
		return "Unset"
	}
	return string(phase)
}

// waiting counts the DataVolumes that something is wrong with, by the reason.
func (w World) waiting() []Sample {
	counts := map[string]int{other: 0}
	for _, reason := range reasons() {
		counts[reason] = 0
	}
	for i := range w.DataVolumes {
		dv := &w.DataVolumes[i]
		if dv.Status.Phase == cdiv1.Succeeded || dv.Status.Phase == cdiv1.Failed {
			continue
		}
		c, troubled := disk.Troubled(dv)
		if !troubled {
			continue
		}
		if _, known := counts[c.Reason]; known {
			counts[c.Reason]++
		} else {
			counts[other]++
		}
	}
	return counted(Waiting, counts)
}

// other stands for every reason that is not in the list: some are words from events, which anybody could make up.
const other = "Other"

func reasons() []string {
	return []string{
		cdi.ReasonErrExceededQuota, cdi.ReasonErrClaimNotValid, cdi.ReasonErrResourceExists, cdi.ReasonErrStartingPod,
		cdi.ReasonUnschedulable, cdi.ReasonImagePullFailed, cdi.ReasonError, "ProvisioningFailed",
	}
}

func counted(name Name, counts map[string]int) []Sample {
	var samples []Sample
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		samples = append(samples, Sample{name, []string{key}, float64(counts[key])})
	}
	return samples
}

// profiles describes each class's profile; the value is always 1.
func (w World) profiles() []Sample {
	var samples []Sample
	for _, p := range w.Profiles {
		i := slices.IndexFunc(w.Classes, func(c storagev1.StorageClass) bool { return c.Name == p.Name })
		if i < 0 {
			continue // the class goes, and its profile with it
		}
		class := w.Classes[i]
		many := slices.ContainsFunc(p.Status.ClaimPropertySets, func(s cdiv1.ClaimPropertySet) bool { return slices.Contains(s.AccessModes, corev1.ReadWriteMany) })
		smart := p.Status.CloneStrategy != nil && *p.Status.CloneStrategy != cdiv1.CloneStrategyHostAssisted
		samples = append(samples, Sample{ProfileInfo, []string{
			class.Name, class.Provisioner, word(len(p.Status.ClaimPropertySets) > 0),
			word(class.Annotations[cdi.DefaultClass] == "true"), word(class.Annotations[cdi.DefaultVirtClass] == "true"),
			word(many), word(smart), word(!many || !smart),
		}, 1})
	}
	return samples
}

func word(b bool) string { return strconv.FormatBool(b) }

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
