package status

import (
	"fmt"

	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// trouble is what a disk does that waits for a reason, which is a condition's.
func trouble(reason string) string {
	switch reason {
	case cdi.ReasonErrExceededQuota:
		return "waiting for room in a quota"
	case cdi.ReasonErrClaimNotValid:
		return "no claim can be made"
	case cdi.ReasonErrResourceExists:
		return "a claim of its name is in the way"
	case cdi.ReasonUnschedulable:
		return "no node takes its worker"
	case cdi.ReasonImagePullFailed:
		return "its worker's image can't be pulled"
	case cdi.ReasonErrStartingPod:
		return "its worker is not let in"
	case cdi.ReasonError:
		return "waiting for the next try"
	case "ProvisioningFailed":
		return "its volume can't be made"
	default:
		return "waiting"
	}
}

// remedy is what to do besides what the condition's own message says; empty for nothing.
func (s Seen) remedy(reason string) string {
	again := fmt.Sprintf("What a disk is made of can't be changed: mend it, then delete the %s and make it again.", s.kind())
	switch reason {
	case cdi.ReasonErrExceededQuota:
		return fmt.Sprintf("See what the quota counts: kubectl -n %s describe quota.", s.Namespace)
	case cdi.ReasonErrClaimNotValid:
		return "If the cluster lacks something, such as a class, the disk goes on by itself once that is there. " + again
	case cdi.ReasonUnschedulable:
		return "Where workers may run is spec.workload of the CDI object cdi; what a worker takes is podResourceRequirements in its config."
	case cdi.ReasonImagePullFailed:
		return "Ask the administrator: the nodes must be able to pull it; imagePullSecrets are in the CDI object's config."
	case "ProvisioningFailed":
		return "Ask who runs the storage; kubectl vmdisk check says what is wrong with the classes. The driver tries again by itself."
	case cdi.ReasonClaimLost:
		return ""
	case cdi.ReasonChecksumError:
		return "Compare the checksum with what the image's publisher says. " + again
	case cdi.ReasonError:
		return s.lookAtSource(again)
	default:
		return ""
	}
}

// lookAtSource is how to see what a source serves.
func (s Seen) lookAtSource(again string) string {
	look := ""
	if s.DataVolume.Spec.Source != nil && s.DataVolume.Spec.Source.HTTP != nil {
		look = "See what the source serves: vmdisk inspect URL. "
	}
	if s.DataVolume.Status.Phase == cdiv1.Failed {
		return look + again
	}
	return look + "It is tried again by itself, for as long as the disk exists."
}

func (s Seen) kind() string {
	if s.Disk != nil {
		return "VMDisk"
	}
	return "DataVolume"
}
