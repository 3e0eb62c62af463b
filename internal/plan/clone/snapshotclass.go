package clone

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
)

// snapshotChoice is the VolumeSnapshotClass of a clone, chosen once.
type snapshotChoice struct {
	// name is empty where there is none; why says why, and remedy what to do about it.
	name, why, remedy string
	// missing is the class that both profiles name and that does not exist.
	missing string
}

// chooseSnapshotClass is the class both StorageProfiles name, or, when they do not name the same one, any class of the driver.
func (c Cluster) chooseSnapshotClass(sourceClass string, target *storagev1.StorageClass, o Options) snapshotChoice {
	common := c.commonSnapshotClass(sourceClass, target.Name)
	if common == "" {
		return c.snapshotClassOf(target.Provisioner, o)
	}
	class := c.snapshotClass(common)
	switch {
	case class == nil || o.NoSnapshotAPI:
		return snapshotChoice{missing: common, remedy: fmt.Sprintf("Create VolumeSnapshotClass %s, or name another one in the spec of both StorageProfiles", common)}
	case class.Driver != target.Provisioner:
		return snapshotChoice{
			why:    fmt.Sprintf("VolumeSnapshotClass %s, which both StorageProfiles name, is of %s, not %s", common, class.Driver, target.Provisioner),
			remedy: fmt.Sprintf("For snapshots, name a VolumeSnapshotClass of %s in the spec of both StorageProfiles", target.Provisioner),
		}
	default:
		return snapshotChoice{name: common}
	}
}

// commonSnapshotClass is the class that both StorageProfiles name; empty: they name none, or different ones. An empty name names none.
func (c Cluster) commonSnapshotClass(source, target string) string {
	a, b := c.profileSnapshotClass(source), c.profileSnapshotClass(target)
	if a != b {
		return ""
	}
	return a
}

func (c Cluster) profileSnapshotClass(class string) string {
	if p := c.profile(class); p != nil && p.Status.SnapshotClass != nil {
		return *p.Status.SnapshotClass
	}
	return ""
}

// snapshotClassOf is a driver's default class, else its first by name.
func (c Cluster) snapshotClassOf(driver string, o Options) snapshotChoice {
	if o.NoSnapshotAPI {
		return snapshotChoice{
			why:    "the cluster does not serve VolumeSnapshots",
			remedy: "For snapshots, install the CRDs and the controller of kubernetes-csi/external-snapshotter, and a VolumeSnapshotClass of " + driver,
		}
	}
	var chosen *VolumeSnapshotClass
	for i := range c.SnapshotClasses {
		if candidate := &c.SnapshotClasses[i]; candidate.Driver == driver && (chosen == nil || candidate.before(chosen)) {
			chosen = candidate
		}
	}
	if chosen == nil {
		return snapshotChoice{why: "there is no VolumeSnapshotClass of " + driver, remedy: "For snapshots, create a VolumeSnapshotClass of " + driver}
	}
	return snapshotChoice{name: chosen.Name}
}

func (s *VolumeSnapshotClass) before(o *VolumeSnapshotClass) bool {
	if s.isDefault() != o.isDefault() {
		return s.isDefault()
	}
	return s.Name < o.Name
}

func (s *VolumeSnapshotClass) isDefault() bool {
	return s.Annotations["snapshot.storage.kubernetes.io/is-default-class"] == "true"
}
