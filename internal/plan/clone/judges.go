package clone

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/internal/plan/volume"
)

func alreadyMade(v view) *Plan {
	if v.exists == "" {
		return nil
	}
	return &Plan{Strategy: None, Reason: DiskExists, Message: v.exists + " exists already: the disk is made, or is being made, and is not made again"}
}

func notAClone(v view) *Plan {
	if v.source.kind != noSource {
		return nil
	}
	return &Plan{Strategy: None, Reason: NotAClone, Message: "the disk is not made from another volume: there is nothing to clone"}
}

func wait(reason Reason, format string, args ...any) *Plan {
	return &Plan{Strategy: Wait, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func reject(reason Reason, format string, args ...any) *Plan {
	return &Plan{Strategy: Reject, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func noDefaultClass(v view) *Plan {
	if !v.byDefault || v.class != nil {
		return nil
	}
	return wait(NoDefaultStorageClass, "the disk names no StorageClass and none is the default: name one, or mark a class with the annotation storageclass.kubevirt.io/is-default-virt-class=true")
}

func classNotFound(v view) *Plan {
	if v.class != nil {
		return nil
	}
	return wait(TargetStorageClassNotFound, "StorageClass %s does not exist: create it, or make the disk again in one of %s", v.request.className(), volume.NamesOf(v.cluster.Classes))
}

// invalidParameters: a class that linstor-csi can't read makes no volume, by whatever strategy.
func invalidParameters(v view) *Plan {
	if v.parameters.Invalid == "" {
		return nil
	}
	return reject(InvalidStorageClassParams, "StorageClass %s makes no volumes, since linstor-csi can't read its parameters: %s", v.class.Name, v.parameters.Invalid)
}

func smallerThanSource(v view) *Plan {
	asked := v.request.bytes()
	if asked == 0 {
		return nil
	}
	has := v.source.diskBytes
	// A claim that is written out has room for less than its size where it has a filesystem, and is compared as a claim.
	if v.request.Spec.PVC != nil && v.source.claim != nil {
		q := v.source.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		has = q.Value()
	}
	if asked >= has {
		return nil
	}
	return reject(TargetSmallerThanSource, "the disk is to have %s, and its source, %s, has %s: ask for at least that", quantity(asked), v.source, quantity(has))
}

// profileIncomplete: without the modes of the class's volumes there is no claim to make.
func profileIncomplete(v view) *Plan {
	if v.targetErr == nil {
		return nil
	}
	profile := v.cluster.profile(v.class.Name)
	switch {
	case profile == nil:
		return wait(StorageProfileIncomplete, "StorageProfile %s does not exist yet: the controller makes it; if it doesn't, see its log", v.class.Name)
	case !slices.ContainsFunc(profile.Status.ClaimPropertySets, func(s cdiv1.ClaimPropertySet) bool { return len(s.AccessModes) > 0 }):
		return wait(StorageProfileIncomplete, "StorageProfile %s does not say which modes the volumes of its class have: set claimPropertySets in its spec", v.class.Name)
	default:
		return reject(ClaimNotValid, "the disk can have no claim: %v", v.targetErr)
	}
}

func sourceNotFound(v view) *Plan {
	if v.source.claim != nil || v.source.snapshot != nil {
		return nil
	}
	what := v.source.Source.String()
	switch {
	case v.request.Image != "":
		what = fmt.Sprintf("image %s (%s)", v.request.Image, what)
	case v.request.DataSource != "":
		what = fmt.Sprintf("DataSource %s, or what it stands for (%s),", v.request.DataSource, what)
	}
	return wait(SourceNotFound, "%s does not exist: the disk is made once it does", what)
}

func bound(v view) bool {
	return v.source.claim != nil && v.source.claim.Status.Phase == corev1.ClaimBound
}

func sourceVolumeMissing(v view) *Plan {
	lost := v.source.claim != nil && v.source.claim.Status.Phase == corev1.ClaimLost
	if !lost && (!bound(v) || v.source.volume != nil) {
		return nil
	}
	return wait(SourceVolumeMissing, "%s is bound to volume %q, which does not exist: bring the volume back, or make the source again", v.source, v.source.claim.Spec.VolumeName)
}

func sourceVolumeMismatch(v view) *Plan {
	if v.source.volume == nil || v.source.volume.Spec.ClaimRef == nil {
		return nil
	}
	ref := v.source.volume.Spec.ClaimRef
	sameClaim := ref.UID == "" || v.source.claim.UID == "" || ref.UID == v.source.claim.UID
	sameName := ref.Namespace == v.source.Namespace && ref.Name == v.source.Name
	if sameName && sameClaim {
		return nil
	}
	other := fmt.Sprintf("claim %s/%s", ref.Namespace, ref.Name)
	if sameName {
		other = "an earlier claim of that name"
	}
	return wait(SourceVolumeMismatch, "%s names volume %s, which belongs to %s: make the source again", v.source, v.source.volume.Name, other)
}

// sourceNotReady: what is cloned must be there as a whole.
func sourceNotReady(v view) *Plan {
	var what string
	switch s := v.source; {
	case s.claim != nil && s.claim.DeletionTimestamp != nil, s.snapshot != nil && s.snapshot.DeletionTimestamp != nil:
		what = "is being deleted"
	case s.snapshot != nil && (s.content == nil || s.capacity == 0):
		what = "is not made yet: it has no content and restoreSize"
	case s.claim != nil && !bound(v):
		what = "is not bound yet"
	case s.dataVolume != nil && s.dataVolume.Status.Phase != cdiv1.Succeeded:
		what = fmt.Sprintf("is not filled yet: its DataVolume is %s", phase(s.dataVolume))
	default:
		return nil
	}
	return v.then(wait(SourceNotReady, "%s %s: the disk is made once it is ready", v.source, what))
}

func phase(dv *cdiv1.DataVolume) string {
	if dv.Status.Phase == "" {
		return "without a phase"
	}
	return "in phase " + string(dv.Status.Phase)
}

func sourceInUse(v view) *Plan {
	if len(v.source.writers) == 0 {
		return nil
	}
	return v.then(wait(SourceInUse, "%s may be written to by pod %s: the disk is made once that has ended", v.source, strings.Join(v.source.writers, ", ")))
}

// waitsForConsumer: the page calls this a state that such a disk is supposed to rest in.
func waitsForConsumer(v view) *Plan {
	if !v.waitsForConsumer() {
		return nil
	}
	plan := v.then(wait(WaitForFirstConsumer, "StorageClass %s makes volumes for their first consumer, and bindImmediately is off: the disk rests until a virtual machine or a pod uses it", v.class.Name))
	plan.RestsReady = true
	return plan
}

// then adds what follows a wait, as things are now.
func (v view) then(plan *Plan) *Plan {
	after := v.choose()
	plan.Then, plan.Trace = after.Strategy, after.Trace
	plan.Message += fmt.Sprintf(". As things are now it will then be made by %s: %s", after.Strategy.words(), after.Message)
	return plan
}

func (s Strategy) words() string {
	return map[Strategy]string{
		CSIClone: "csi-clone", Snapshot: "snapshot", HostAssisted: "a host-assisted copy",
		Wait: "nothing yet: it waits", Reject: "nothing: it can't be made", None: "no clone",
	}[s]
}

// quantity writes bytes as Kubernetes does, and says what those come to that have no round name.
func quantity(bytes int64) string {
	if bytes%volume.MiB != 0 {
		return fmt.Sprintf("%d bytes (%.1fGi)", bytes, float64(bytes)/(1<<30))
	}
	return resource.NewQuantity(bytes, resource.BinarySI).String()
}
