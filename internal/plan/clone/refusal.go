package clone

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// Finding is why a new disk is refused, where refusing is on, and what a warning tells where it is not.
type Finding struct {
	Reason Reason
	// Image is the golden image's name, Claim its claim.
	Image string
	Claim Source
	// GoldenClass is the class that the image lives in; empty: it names none. TargetClass is the class that the disk is asked for in.
	GoldenClass, TargetClass string
	// SnapshotClass is the one that is missing.
	SnapshotClass string
	// wish is where the strategy comes from that would not be fallen back from.
	wish wish
}

// refusal is the page "Virtual Machine Disk" sentence by sentence: which new disks must not be left to CDI. It is only ever about
// source.image, and compares only what it can look up.
func refusal(r Request, c Cluster, o Options) *Finding {
	// "Neither applies to a disk whose DataVolume or PVC already exists."
	if r.Image == "" || c.made(r) != "" {
		return nil
	}
	// "Without the golden image's PVC, the cdi resource or the target's StorageClass nothing is compared."
	golden := c.claim(r.Source.Namespace, r.Source.Name)
	resource := c.cdi()
	target := c.comparedClass(r)
	if golden == nil || resource == nil || target == nil {
		return nil
	}
	f := &Finding{
		Image: r.Image, Claim: r.Source, GoldenClass: classOf(golden), TargetClass: target.Name,
		wish: Cluster{CDIs: []cdiv1.CDI{*resource}}.wish(c.profile(target.Name)),
	}
	driver := c.driverOf(golden)
	switch {
	case f.missesSnapshotClass(c, o, driver, target):
		f.Reason, f.SnapshotClass = SnapshotClassMissing, c.commonSnapshotClass(f.GoldenClass, target.Name)
	case f.needsRemoteAccess(c, o, driver, volume.Mode(golden.Spec.VolumeMode), target):
		f.Reason = RemoteAccess
	default:
		return nil
	}
	return f
}

// cdi is the cdi resource.
func (c Cluster) cdi() *cdiv1.CDI {
	for i := range c.CDIs {
		if c.CDIs[i].Name == cdi.CDIName {
			return &c.CDIs[i]
		}
	}
	return nil
}

// comparedClass is the class that a disk is compared in. "An empty storageClass is compared as the class CDI would pick for it […]; when
// several classes carry the annotation that decides, nothing is compared."
func (c Cluster) comparedClass(r Request) *storagev1.StorageClass {
	if r.className() != "" {
		return c.class(r.className())
	}
	class, ties := c.defaultClass(true)
	if len(ties) > 1 {
		return nil
	}
	return class
}

// missesSnapshotClass: "Under snapshot, it also refuses a disk whose golden and target StorageProfiles name the same VolumeSnapshotClass
// when that class does not exist and the golden's driver is the target class's provisioner, whatever the driver." Without the snapshot API
// no class exists.
func (f *Finding) missesSnapshotClass(c Cluster, o Options, driver string, target *storagev1.StorageClass) bool {
	choice := c.chooseSnapshotClass(f.GoldenClass, target, o)
	return f.wish.strategy == Snapshot && choice.missing != "" && driver == target.Provisioner
}

// needsRemoteAccess: the driver's clone "is created next to the source data, so on a target class that does not allow remote volume access
// from every node, […] the clone may never bind".
func (f *Finding) needsRemoteAccess(c Cluster, o Options, driver string, mode corev1.PersistentVolumeMode, target *storagev1.StorageClass) bool {
	profile := c.profile(target.Name)
	switch {
	// "into a different StorageClass"
	case f.GoldenClass == target.Name:
		return false
	// "also needs the target's StorageProfile with a claim property set"
	case profile == nil || len(profile.Status.ClaimPropertySets) == 0:
		return false
	// "when the golden's driver and the target class's provisioner are both LINSTOR"
	case driver != linstor.Driver || target.Provisioner != linstor.Driver:
		return false
	// "with the same volume mode"
	case mode != volume.Mode(profile.Status.ClaimPropertySets[0].VolumeMode):
		return false
	// "and room to expand": the sizes don't count
	case target.AllowVolumeExpansion == nil || !*target.AllowVolumeExpansion:
		return false
	// "csi-clone […]; the snapshot strategy does the same when it gets a VolumeSnapshotClass of that driver"
	case f.wish.strategy == HostAssisted:
		return false
	case f.wish.strategy == Snapshot && c.chooseSnapshotClass(f.GoldenClass, target, o).name == "":
		return false
	}
	// "the target's allowRemoteVolumeAccess is not a value linstor-csi reads as true", nor has it a rule that names no fromSame label, nor,
	// "without that parameter", a DRBD or NVMe layer.
	return !linstor.Parse(target.Parameters).FromAnywhere
}

// why is what would become of the disk.
func (f *Finding) why() string {
	if f.Reason == SnapshotClassMissing {
		return fmt.Sprintf("the StorageProfiles of both name VolumeSnapshotClass %s, which does not exist, so CDI would never plan the clone", f.SnapshotClass)
	}
	return fmt.Sprintf("by the %s strategy (%s) LINSTOR makes the clone next to the image's data, and %s does not allow remote volume access from every node, so the clone may never bind",
		f.wish.strategy, f.wish.from, f.TargetClass)
}

func (f *Finding) classes() string {
	golden := "in StorageClass " + f.GoldenClass
	if f.GoldenClass == "" {
		golden = "in no StorageClass"
	}
	return fmt.Sprintf("image %s (%s) lives %s, and the disk is asked for in %s", f.Image, f.Claim, golden, f.TargetClass)
}

// Message is what admission says to whoever asked for the disk.
func (f *Finding) Message(p Policy) string {
	return f.classes() + ": " + f.why() + ". " + f.remedy(p)
}

// remedy is what to do. Another class doesn't help where a VolumeSnapshotClass is missing: the image's own profile names it, too.
func (f *Finding) remedy(p Policy) string {
	ask := "ask the platform administrator to set cloneStrategyOverride: copy in the CDI resource (in Cozystack: in the kubevirt-cdi package)"
	if p.Engine == EngineVMDisk {
		ask += ", or to run vmdisk with --cross-class-clone=copy"
	}
	switch {
	case f.Reason == SnapshotClassMissing:
		return fmt.Sprintf("Create VolumeSnapshotClass %s, or %s", f.SnapshotClass, ask)
	case f.GoldenClass == "":
		return "Ask for an image that lives in the disk's StorageClass, or " + ask
	default:
		return fmt.Sprintf("Use StorageClass %s, or %s", f.GoldenClass, ask)
	}
}

// Warning is what admission says where it lets the disk be, which is then made by the plan.
func (f *Finding) Warning(p Plan) string {
	how := "vmdisk copies the disk, which takes longer than a clone"
	switch {
	case p.Then == CSIClone || p.Then == Snapshot:
		how = fmt.Sprintf("vmdisk tries a %s once it can, and copies the disk if that fails", p.Then)
	case p.Fallback != "":
		how = fmt.Sprintf("vmdisk tries a %s%s, and copies the disk if that fails", p.Strategy, onNodes(p.Nodes))
	}
	return fmt.Sprintf("%s: %s, because %s", f.classes(), how, f.why())
}

func onNodes(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	return " on " + list(nodes)
}
