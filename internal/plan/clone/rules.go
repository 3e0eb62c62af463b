package clone

import (
	"fmt"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// rule says why a strategy can't be taken; the empty reason: it doesn't mind. Each may rely on those before it.
type rule func(view, Strategy) (Reason, string)

// rules is what speaks against the driver's own ways, in the order in which it is looked for. The first half is what CDI falls back for,
// too; the second is what it hangs on.
func rules() []rule {
	return []rule{
		copyRequested,
		driverMismatch, noCSIDriver, sourceNotCSI, volumeModeMismatch, noVolumeExpansion,
		snapshotClassMissing, noSnapshotClass, quotaExceeded,
		conflictingParameters, unreplicatedTarget, notReachable, consumerElsewhere,
	}
}

// forbidding is the annotation that asks for a copy.
const forbidding = "DataVolume's annotation " + cdi.UsePopulator + `: "false"`

// copyRequested: the copy strategy, by the DataVolume itself, by override or by profile. Neither of these two is asked about a VolumeSnapshot.
func copyRequested(v view, _ Strategy) (Reason, string) {
	switch {
	case v.source.kind == snapshotSource && !v.request.plain || v.wish.strategy != HostAssisted:
		return "", ""
	case v.wish.unknown != "":
		return CopyRequested, fmt.Sprintf("the %s is %q, which is no strategy: set it to copy, snapshot or csi-clone", v.wish.from, v.wish.unknown)
	default:
		return CopyRequested, fmt.Sprintf("the %s asks for it", v.wish.from)
	}
}

// driverMismatch: a driver knows its own volumes only.
func driverMismatch(v view, _ Strategy) (Reason, string) {
	switch v.source.driver {
	case v.class.Provisioner:
		return "", ""
	case "":
		if v.source.kind == snapshotSource {
			return DriverMismatch, fmt.Sprintf("the driver of %s is not known: it has no content yet", v.source)
		}
		// A claim without a CSI volume has its class's driver, and that class is gone.
		return DriverMismatch, fmt.Sprintf("the driver of %s is not known: it has no CSI volume, and its StorageClass %q does not exist", v.source, v.source.className())
	default:
		return DriverMismatch, fmt.Sprintf("%s is a volume of %s, and StorageClass %s makes volumes of %s", v.source, v.source.driver, v.class.Name, v.class.Provisioner)
	}
}

func noCSIDriver(v view, _ Strategy) (Reason, string) {
	if v.cluster.driver(v.class.Provisioner) != nil {
		return "", ""
	}
	return NoCSIDriver, fmt.Sprintf("there is no CSIDriver %s, and only CSI drivers clone", v.class.Provisioner)
}

func sourceNotCSI(v view, _ Strategy) (Reason, string) {
	if v.source.volume == nil || v.source.volume.Spec.CSI != nil {
		return "", ""
	}
	return SourceNotCSI, fmt.Sprintf("volume %s of %s was not made by a CSI driver", v.source.volume.Name, v.source)
}

// volumeModeMismatch: an unset mode is Filesystem.
func volumeModeMismatch(v view, _ Strategy) (Reason, string) {
	target := volume.Mode(v.target.Claim.VolumeMode)
	if v.source.mode == target {
		return "", ""
	}
	return VolumeModeMismatch, fmt.Sprintf("%s has volume mode %s, and the disk is to have %s", v.source, v.source.mode, target)
}

func noVolumeExpansion(v view, _ Strategy) (Reason, string) {
	if !v.grows() || v.expands() {
		return "", ""
	}
	return NoVolumeExpansion, fmt.Sprintf("a clone has the source's %s, the disk needs %s, and StorageClass %s does not allow expansion", quantity(v.source.capacity), quantity(v.targetBytes()), v.class.Name)
}

// snapshotClassMissing: both StorageProfiles name the same VolumeSnapshotClass, and it does not exist. CDI then fails to plan the clone.
func snapshotClassMissing(v view, s Strategy) (Reason, string) {
	if s != Snapshot || v.snapshotClass.missing == "" {
		return "", ""
	}
	return SnapshotClassMissing, fmt.Sprintf("the StorageProfiles of %s and %s both name VolumeSnapshotClass %s, which does not exist", v.source.className(), v.class.Name, v.snapshotClass.missing)
}

// noSnapshotClass: snapshot that gets no VolumeSnapshotClass of the driver.
func noSnapshotClass(v view, s Strategy) (Reason, string) {
	if s != Snapshot || v.source.kind == snapshotSource || v.snapshotClass.name != "" {
		return "", ""
	}
	return NoVolumeSnapshotClass, v.snapshotClass.why
}

func conflictingParameters(v view, _ Strategy) (Reason, string) {
	if v.parameters.Conflict == "" {
		return "", ""
	}
	return ConflictingParameters, fmt.Sprintf("parameters of StorageClass %s disagree, and linstor-csi takes any of them: %s", v.class.Name, v.parameters.Conflict)
}

// unreplicatedTarget: LINSTOR clones onto each node that holds the source. Without DRBD or NVMe these are copies that don't know of each
// other: a machine that moves from one to another finds the image untouched. A snapshot is restored on one node only.
func unreplicatedTarget(v view, s Strategy) (Reason, string) {
	known, one := len(v.source.data) > 0, len(v.source.data) == 1
	if s != CSIClone || !v.linstor() || v.parameters.Networked || one || (!known && !v.reach().anywhere) {
		return "", ""
	}
	return UnreplicatedTarget, fmt.Sprintf("StorageClass %s has neither DRBD nor NVMe, so LINSTOR would make an independent copy on each node that holds the source (%s)", v.class.Name, v.source.dataWords())
}

// notReachable: LINSTOR makes a clone next to the source's data. Where the volume can't be used from everywhere, it must be known where
// that is. Within a namespace the volume is made the moment that its consumer's node is chosen, so there it must be everywhere.
func notReachable(v view, _ Strategy) (Reason, string) {
	r := v.reach()
	switch {
	case r.anywhere:
		return "", ""
	case len(r.nodes) == 0:
		return TargetNotReachable, fmt.Sprintf("a clone in StorageClass %s can be used only from where the data of %s is, %s, and it is not known where that is", v.class.Name, v.source, v.accessWords())
	case v.waitsForConsumer() && v.request.Namespace == v.source.Namespace:
		return TargetNotReachable, fmt.Sprintf("a clone in StorageClass %s can be used only from %s, and its consumer may run elsewhere", v.class.Name, list(r.nodes))
	default:
		return "", ""
	}
}

func consumerElsewhere(v view, _ Strategy) (Reason, string) {
	r, node := v.reach(), v.options.SelectedNode
	if node == "" || r.anywhere || r.has(node) {
		return "", ""
	}
	return ConsumerNodeLacksData, fmt.Sprintf("the disk's consumer runs on node %s, and a clone could be used only from %s", node, list(r.nodes))
}
