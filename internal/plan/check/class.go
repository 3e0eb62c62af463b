package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
	"vmdisk.io/vmdisk/internal/plan/profile"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// static is the provisioner of classes whose volumes somebody makes by hand.
const static = "kubernetes.io/no-provisioner"

func about(c storagev1.StorageClass) string { return "StorageClass " + c.Name }

// defaults: a disk that names no class gets one, and it is known which.
func defaults(s Seen) []Finding {
	if len(s.Classes) == 0 {
		return []Finding{{Problem, "StorageClasses", "there are none, so no disk can be made", "Install a storage driver, and make a StorageClass of it."}}
	}
	if name := s.argument("--default-storage-class"); name != "" {
		if !slices.ContainsFunc(s.Classes, func(c storagev1.StorageClass) bool { return c.Name == name }) {
			return []Finding{{Problem, "the default class", fmt.Sprintf("the controller's --default-storage-class is %s, which doesn't exist", name), "Make that class, or change the flag."}}
		}
		return []Finding{{OK, "the default class", fmt.Sprintf("VMDisks that name none get %s, by --default-storage-class", name), ""}}
	}
	virt, cluster := volume.Marked(s.Classes, cdi.DefaultVirtClass), volume.Marked(s.Classes, cdi.DefaultClass)
	chosen := volume.VirtDefault(s.Classes)
	if chosen == nil {
		return []Finding{{Warning, "the default class", "there is none, so a disk must name its class",
			fmt.Sprintf("Choose one: kubectl annotate storageclass NAME %s=true.", cdi.DefaultVirtClass)}}
	}
	var findings []Finding
	for _, of := range []struct {
		key   string
		names []string
	}{{cdi.DefaultVirtClass, virt}, {cdi.DefaultClass, cluster}} {
		if len(of.names) > 1 {
			findings = append(findings, Finding{Warning, "the default class", fmt.Sprintf("%s all have the annotation %s; the newest counts", strings.Join(of.names, ", "), of.key),
				fmt.Sprintf("Take it from all but one: kubectl annotate storageclass NAME %s-.", of.key)})
		}
	}
	why := "as the cluster's default"
	if len(virt) > 0 {
		why = "as the default for virtual machines"
	}
	return append(findings, Finding{OK, "the default class", fmt.Sprintf("disks that name none get %s, %s", chosen.Name, why), ""})
}

// profiles: of each class it is known what its volumes are like.
func profiles(s Seen) []Finding {
	var findings []Finding
	for _, c := range s.Classes {
		p := s.profile(c.Name)
		if p == nil {
			findings = append(findings, Finding{Problem, about(c), "it has no StorageProfile, so no disk can be made in it", "The controller makes it: see that it runs."})
			continue
		}
		if len(p.Status.ClaimPropertySets) == 0 {
			findings = append(findings, Finding{Problem, about(c), "its StorageProfile doesn't say which modes its volumes have, so a disk can't be made in it",
				fmt.Sprintf("Set spec.claimPropertySets of StorageProfile %s.", c.Name)})
			continue
		}
		if c.Provisioner != static { // there is a finding for that
			findings = append(findings, recognized(c, p))
		}
	}
	return findings
}

// recognized tells what is known of a class whose profile is complete.
func recognized(c storagev1.StorageClass, p *cdiv1.StorageProfile) Finding {
	for _, condition := range p.Status.Conditions {
		if condition.Type == cdiv1.StorageProfileRecognized && condition.Status == corev1.ConditionFalse && len(p.Spec.ClaimPropertySets) == 0 {
			return Finding{Warning, about(c), condition.Message, fmt.Sprintf("See the driver's manual, then set spec.claimPropertySets of StorageProfile %s, be it to the same.", c.Name)}
		}
	}
	best := p.Status.ClaimPropertySets[0]
	words := []string{"disks are " + modeWords(best)}
	if !slices.Contains(best.AccessModes, corev1.ReadWriteMany) {
		words = append(words, "so their machines can't migrate while they run")
	}
	if c.AllowVolumeExpansion == nil || !*c.AllowVolumeExpansion {
		words = append(words, "it has no allowVolumeExpansion, so they can't grow")
	}
	return Finding{OK, about(c), strings.Join(words, "; "), ""}
}

func modeWords(set cdiv1.ClaimPropertySet) string {
	var words []string
	if set.VolumeMode != nil {
		words = append(words, string(*set.VolumeMode))
	}
	for _, m := range set.AccessModes {
		words = append(words, string(m))
	}
	return strings.Join(words, " ")
}

func (s Seen) profile(class string) *cdiv1.StorageProfile {
	i := slices.IndexFunc(s.Profiles, func(p cdiv1.StorageProfile) bool { return p.Name == class })
	if i < 0 {
		return nil
	}
	return &s.Profiles[i]
}

// places: where a class's volumes can be used.
func places(s Seen) []Finding {
	var findings []Finding
	for _, c := range s.Classes {
		waits := c.VolumeBindingMode != nil && *c.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
		switch {
		case c.Provisioner == static:
			findings = append(findings, Finding{Warning, about(c), "nobody makes volumes in it: a disk waits until somebody makes a PersistentVolume for it",
				"Make PersistentVolumes by hand, or use a class with a provisioner."})
		case c.Provisioner == linstor.Driver && linstor.Parse(c.Parameters).Invalid != "":
			findings = append(findings, Finding{Problem, about(c), "linstor-csi can't read its parameters: " + linstor.Parse(c.Parameters).Invalid, "Make the class again with other parameters."})
		case !nodeLocal(c):
		case waits:
			findings = append(findings, Finding{OK, about(c), "its volumes are of one node: a disk whose machine can't run everywhere needs bindImmediately: false", ""})
		default:
			findings = append(findings, Finding{Warning, about(c), "its volumes are of one node, which is chosen without regard to the machine that will use the disk",
				"Make the class again with volumeBindingMode: WaitForFirstConsumer."})
		}
	}
	return findings
}

// nodeLocal says whether a class's volumes are known to be usable on one node only.
func nodeLocal(c storagev1.StorageClass) bool {
	if c.Provisioner == linstor.Driver {
		return !linstor.Parse(c.Parameters).Access.Anywhere
	}
	return profile.NodeLocal(c.Provisioner)
}

// drivers: what makes a class's volumes runs on the nodes.
func drivers(s Seen) []Finding {
	var findings []Finding
	for _, d := range s.Drivers {
		used := slices.ContainsFunc(s.Classes, func(c storagev1.StorageClass) bool { return c.Provisioner == d.Name })
		if !used {
			continue
		}
		var without []string
		for _, n := range s.DriverNodes {
			if !slices.ContainsFunc(n.Spec.Drivers, func(on storagev1.CSINodeDriver) bool { return on.Name == d.Name }) {
				without = append(without, n.Name)
			}
		}
		slices.Sort(without)
		switch {
		case len(s.DriverNodes) == 0:
		case len(without) == len(s.DriverNodes):
			findings = append(findings, Finding{Problem, "CSIDriver " + d.Name, "it runs on no node, so its volumes can't be used", "See why its node plugin doesn't run."})
		case len(without) > 0:
			findings = append(findings, Finding{Warning, "CSIDriver " + d.Name, "it doesn't run on " + short(without) + ", where its volumes can't be used",
				"See why its node plugin doesn't run there, unless that is on purpose."})
		}
	}
	return findings
}

// short is a list of names that stays readable.
func short(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}

// snapshots: a class that is to be cloned by snapshots can be.
func snapshots(s Seen) []Finding {
	var findings []Finding
	for _, c := range s.Classes {
		p := s.profile(c.Name)
		if p == nil {
			continue
		}
		if named := p.Status.SnapshotClass; named != nil && *named != "" && !slices.ContainsFunc(s.SnapshotClasses, func(k SnapshotClass) bool { return k.Name == *named && k.Driver == c.Provisioner }) {
			findings = append(findings, Finding{Warning, about(c), fmt.Sprintf("its StorageProfile names VolumeSnapshotClass %s, and there is none of that name and driver", *named),
				"Make it, or name another one in the StorageProfile's spec."})
			continue
		}
		if wish := p.Status.CloneStrategy; wish == nil || *wish != cdiv1.CloneStrategySnapshot {
			continue
		}
		if s.NoSnapshots || !slices.ContainsFunc(s.SnapshotClasses, func(k SnapshotClass) bool { return k.Driver == c.Provisioner }) {
			findings = append(findings, Finding{Warning, about(c), fmt.Sprintf("its StorageProfile asks for clones by snapshots, and there is no VolumeSnapshotClass of %s: disks are copied", c.Provisioner),
				"Make one, or set cloneStrategy: copy in the StorageProfile's spec."})
		}
	}
	switch {
	case len(findings) > 0:
		return findings
	case s.NoSnapshots:
		return []Finding{{OK, "VolumeSnapshotClasses", "the cluster doesn't serve snapshots, and no class asks for them", ""}}
	default:
		return []Finding{{OK, "VolumeSnapshotClasses", fmt.Sprintf("there are %d, and none is missing", len(s.SnapshotClasses)), ""}}
	}
}

// devices: a worker may open a raw block volume. The API doesn't tell how nodes' runtimes are set up.
func devices(s Seen) []Finding {
	raw := slices.ContainsFunc(s.Profiles, func(p cdiv1.StorageProfile) bool {
		return len(p.Status.ClaimPropertySets) > 0 && p.Status.ClaimPropertySets[0].VolumeMode != nil && *p.Status.ClaimPropertySets[0].VolumeMode == corev1.PersistentVolumeBlock
	})
	if !raw {
		return []Finding{{OK, "block devices", "no class gives disks as raw block volumes by default, so nodes need no setting for them", ""}}
	}
	runtimes := map[string]bool{}
	for _, n := range s.Nodes {
		name, _, _ := strings.Cut(n.Status.NodeInfo.ContainerRuntimeVersion, "://")
		runtimes[name] = true
	}
	const setting = "device_ownership_from_security_context = true"
	do := "On each node: containerd config dump | grep device_ownership_from_security_context. In /etc/containerd/config.toml it belongs to the CRI plugin's section: " + setting + "."
	if runtimes["cri-o"] {
		do = "On each node: crio status config | grep device_ownership_from_security_context. In /etc/crio/crio.conf.d/ it belongs to [crio.runtime]: " + setting + "."
	}
	return []Finding{{Unknown, "block devices", fmt.Sprintf("whether the %d nodes let pods that aren't root open raw block volumes can't be seen through the API; where they don't, workers end with permission denied", len(s.Nodes)), do}}
}
