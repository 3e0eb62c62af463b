// Package profile decides a StorageProfile's status: which modes a class's volumes have, from what the administrator
// wrote and from what is known of its driver. It is pure.
package profile

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// Reasons of the Recognized condition.
const (
	Recognized             = "RecognizedProvisioner"
	Unrecognized           = "UnrecognizedProvisioner"
	UnrecognizedParameters = "UnrecognizedStorageClassParameters"
)

// Cluster is what a profile depends on besides its class.
type Cluster struct {
	// SnapshotDrivers are the drivers that VolumeSnapshotClasses exist of.
	SnapshotDrivers []string
}

// Status is the status of the profile of a class. What the profile's spec sets wins over what is known of the driver.
func Status(profile *cdiv1.StorageProfile, class *storagev1.StorageClass, cluster Cluster, now metav1.Time) cdiv1.StorageProfileStatus {
	known, reason := kindOf(class)
	status := *profile.Status.DeepCopy()
	status.StorageClass = &class.Name
	status.Provisioner = &class.Provisioner
	status.ClaimPropertySets = profile.Spec.ClaimPropertySets
	if len(status.ClaimPropertySets) == 0 {
		status.ClaimPropertySets = known.sets()
	}
	status.CloneStrategy = strategy(profile, class, known, cluster)
	status.DataImportCronSourceFormat = profile.Spec.DataImportCronSourceFormat
	status.SnapshotClass = profile.Spec.SnapshotClass
	status.Conditions = []cdiv1.StorageProfileCondition{timed(recognized(class, reason, len(profile.Spec.ClaimPropertySets) > 0), status.Conditions, now)}
	return status
}

// strategy is the wish for clones: the profile's, the class's, the driver's; otherwise snapshot where the driver has a
// VolumeSnapshotClass, and else copy.
func strategy(profile *cdiv1.StorageProfile, class *storagev1.StorageClass, known kind, cluster Cluster) *cdiv1.CDICloneStrategy {
	if profile.Spec.CloneStrategy != nil && *profile.Spec.CloneStrategy != "" {
		return profile.Spec.CloneStrategy
	}
	switch s := cdiv1.CDICloneStrategy(class.Annotations[cdi.CloneStrategyAnnotation]); s {
	case cdiv1.CloneStrategyHostAssisted, cdiv1.CloneStrategySnapshot, cdiv1.CloneStrategyCsiClone:
		return &s
	}
	switch {
	case known.clone != "":
		return &known.clone
	case slices.Contains(cluster.SnapshotDrivers, class.Provisioner):
		return new(cdiv1.CloneStrategySnapshot)
	default:
		return new(cdiv1.CloneStrategyHostAssisted)
	}
}

// Annotations are those that the profile of a class is made with: what is known of its driver and has no place in the status.
func Annotations(class *storagev1.StorageClass) map[string]string {
	known, _ := kindOf(class) // an unknown driver has no smallest volume
	if known.least == "" {
		return nil
	}
	return map[string]string{cdi.MinimumClaimSize: known.least}
}

// recognized is the condition that says whether the class's driver is known, without its times. Overridden says that the profile's spec
// has claimPropertySets.
func recognized(class *storagev1.StorageClass, reason string, overridden bool) cdiv1.StorageProfileCondition {
	c := cdiv1.StorageProfileCondition{Type: cdiv1.StorageProfileRecognized}
	c.Status, c.Reason = corev1.ConditionFalse, reason
	var trouble string
	switch reason {
	case Recognized:
		c.Status = corev1.ConditionTrue
		return c
	case UnrecognizedParameters:
		trouble = fmt.Sprintf("the parameters of StorageClass %s don't tell which kind of volume %s makes", class.Name, class.Provisioner)
	default:
		trouble = fmt.Sprintf("provisioner %s is not known to vmdisk", class.Provisioner)
	}
	c.Message = trouble + ", so disks get ReadWriteOnce and Filesystem: if it can do better, set claimPropertySets in this profile's spec"
	if overridden {
		c.Message = trouble + "; the claimPropertySets of this profile's spec are used"
	}
	return c
}

// timed puts times to a condition: a transition is a change of status, a heartbeat is any change.
func timed(c cdiv1.StorageProfileCondition, old []cdiv1.StorageProfileCondition, now metav1.Time) cdiv1.StorageProfileCondition {
	c.LastTransitionTime, c.LastHeartbeatTime = now, now
	for _, o := range old {
		if o.Type != c.Type {
			continue
		}
		if o.Status == c.Status {
			c.LastTransitionTime = o.LastTransitionTime
		}
		if o.Status == c.Status && o.Reason == c.Reason && o.Message == c.Message {
			c.LastHeartbeatTime = o.LastHeartbeatTime
		}
	}
	return c
}
