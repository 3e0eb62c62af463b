package clone

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// view is a request with everything of the cluster that bears on it. What doesn't exist is nil.
type view struct {
	request Request
	cluster Cluster
	options Options
	// exists is the disk's DataVolume or claim, if it is made already.
	exists string
	class  *storagev1.StorageClass
	// byDefault: the disk names no class.
	byDefault bool
	// ties are the default classes that the class was chosen among.
	ties       []string
	parameters linstor.Parameters
	// target is the claim that the disk gets, unless targetErr says why it can't have one.
	target        volume.Volume
	targetErr     error
	source        source
	wish          wish
	snapshotClass snapshotChoice
}

// look finds what bears on a request.
func look(r Request, c Cluster, o Options) view {
	if claim := c.claim(r.Namespace, r.Name); claim != nil && o.SelectedNode == "" {
		o.SelectedNode = claim.Annotations["volume.kubernetes.io/selected-node"]
	}
	v := view{request: r, cluster: c, options: o, exists: c.made(r)}
	v.source = c.look(r.Source, o)
	v.class, v.byDefault = c.class(r.className()), r.className() == ""
	if v.byDefault {
		v.class, v.ties = c.defaultClass(r.Spec.PVC == nil)
	}
	if v.class == nil {
		return v
	}
	if v.linstor() {
		v.parameters = linstor.Parse(v.class.Parameters)
	}
	v.target, v.targetErr = volume.Of(r.sized(v.class.Name, max(v.source.diskBytes, volume.MiB)), c.volumes())
	v.wish = c.wish(c.profile(v.class.Name))
	if r.plain {
		v.wish = wish{strategy: HostAssisted, from: forbidding}
	}
	v.snapshotClass = c.chooseSnapshotClass(v.source.className(), v.class, o)
	return v
}

// made is what exists already of a disk: for a VMDisk its DataVolume or its claim, for a DataVolume its claim.
func (c Cluster) made(r Request) string {
	switch {
	case r.AsNew:
	case r.Kind == "VMDisk" && c.dataVolume(r.Namespace, r.Name) != nil:
		return "DataVolume " + r.Namespace + "/" + r.Name
	case c.claim(r.Namespace, r.Name) != nil:
		return "PersistentVolumeClaim " + r.Namespace + "/" + r.Name
	}
	return ""
}

// defaultClass is the class for a disk that names none, and the classes that carry the annotation that decides: the one for virtual machines
// where any class has it, otherwise the cluster's. A claim that is written out gets the cluster's.
func (c Cluster) defaultClass(virt bool) (class *storagev1.StorageClass, ties []string) {
	class, key := volume.ClusterDefault(c.Classes), cdi.DefaultClass
	if virt {
		class = volume.VirtDefault(c.Classes)
	}
	if class != nil && virt && class.Annotations[cdi.DefaultVirtClass] == "true" {
		key = cdi.DefaultVirtClass
	}
	return class, volume.Marked(c.Classes, key)
}

// wish is what the administrator asks for.
type wish struct {
	strategy Strategy
	// from is where that is said.
	from string
	// unknown is a word that is no strategy; the disk is then copied.
	unknown string
}

// wish is the CDI resource's cloneStrategyOverride, otherwise the target StorageProfile's cloneStrategy, otherwise snapshot. Empty counts as unset.
func (c Cluster) wish(profile *cdiv1.StorageProfile) wish {
	if active := c.activeCDI(); active != nil && active.Spec.CloneStrategyOverride != nil && *active.Spec.CloneStrategyOverride != "" {
		return wishOf(string(*active.Spec.CloneStrategyOverride), "cloneStrategyOverride of CDI "+active.Name)
	}
	if profile != nil && profile.Status.CloneStrategy != nil && *profile.Status.CloneStrategy != "" {
		return wishOf(string(*profile.Status.CloneStrategy), "cloneStrategy of StorageProfile "+profile.Name)
	}
	return wish{strategy: Snapshot, from: "what is done where nobody asks for anything"}
}

func wishOf(word, from string) wish {
	switch cdiv1.CDICloneStrategy(word) {
	case cdiv1.CloneStrategyCsiClone:
		return wish{strategy: CSIClone, from: from}
	case cdiv1.CloneStrategySnapshot:
		return wish{strategy: Snapshot, from: from}
	case cdiv1.CloneStrategyHostAssisted:
		return wish{strategy: HostAssisted, from: from}
	default:
		return wish{strategy: HostAssisted, from: from, unknown: word}
	}
}

// activeCDI is the one CDI resource, or the only one that is not in error.
func (c Cluster) activeCDI() *cdiv1.CDI {
	if len(c.CDIs) == 1 {
		return &c.CDIs[0]
	}
	var active *cdiv1.CDI
	for i := range c.CDIs {
		if c.CDIs[i].Status.Phase == "Error" {
			continue
		}
		if active != nil {
			return nil
		}
		active = &c.CDIs[i]
	}
	return active
}

func (v view) linstor() bool { return v.class.Provisioner == linstor.Driver }

// targetBytes is the size of the disk's claim.
func (v view) targetBytes() int64 {
	q := v.target.Claim.Resources.Requests[corev1.ResourceStorage]
	return q.Value()
}

// grows says whether a clone, which is as large as its source, must grow.
func (v view) grows() bool { return v.targetBytes() > v.source.capacity }

func (v view) expands() bool {
	return v.class.AllowVolumeExpansion != nil && *v.class.AllowVolumeExpansion
}

func (v view) waitsForConsumer() bool {
	return v.target.WaitsForConsumer() && !v.request.BindImmediately && v.options.SelectedNode == ""
}
