package clone

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/internal/plan/clone/linstor"
	"vmdisk.io/vmdisk/internal/plan/volume"
)

// source is what a disk is made from.
type source struct {
	Source
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
	// dataVolume fills the claim.
	dataVolume *cdiv1.DataVolume
	snapshot   *VolumeSnapshot
	content    *VolumeSnapshotContent
	// driver is empty where it isn't known.
	driver string
	mode   corev1.PersistentVolumeMode
	// diskBytes is the disk on the volume, capacity the volume's size.
	diskBytes, capacity int64
	// writers are the pods that may write to the claim.
	writers []string
	// data are the nodes that hold the source's data; nil: not known.
	data []string
}

// look finds a source.
func (c Cluster) look(name Source, o Options) source {
	s := source{Source: name}
	switch name.kind {
	case claimSource:
		s.lookAtClaim(c)
	case snapshotSource:
		s.lookAtSnapshot(c)
	}
	if s.volume != nil {
		s.data = c.dataNodes(s.volume)
	}
	if s.data == nil {
		s.data = slices.Clone(o.SourceNodes)
	}
	slices.Sort(s.data)
	return s
}

func (s *source) lookAtClaim(c Cluster) {
	s.claim = c.claim(s.Namespace, s.Name)
	if s.claim == nil {
		return
	}
	s.volume = c.volume(s.claim.Spec.VolumeName)
	s.driver = c.driverOf(s.claim)
	s.mode = volume.Mode(s.claim.Spec.VolumeMode)
	q := s.claim.Status.Capacity[corev1.ResourceStorage]
	s.capacity = q.Value()
	if s.capacity == 0 {
		q = s.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		s.capacity = q.Value() // what the claim will have, once it is bound
	}
	var spec cdiv1.DataVolumeSpec
	if dv := c.dataVolume(s.Namespace, s.Name); dv != nil && owns(dv, s.claim) {
		s.dataVolume, spec = dv, dv.Spec
	}
	s.diskBytes = volume.OfClaim(s.claim.Spec, spec, c.volumes()).DiskBytes
	s.writers = c.writers(s.Namespace, s.Name)
}

// owns says whether a DataVolume is an owner of a claim, its controller or not: as long as it is not done, the claim is not filled.
func owns(dv *cdiv1.DataVolume, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == dv.UID })
}

func (s *source) lookAtSnapshot(c Cluster) {
	s.snapshot = named(c.Snapshots, func(o *VolumeSnapshot) *metav1.ObjectMeta { return &o.ObjectMeta }, s.Namespace, s.Name)
	if s.snapshot == nil {
		return
	}
	if q := s.snapshot.Status.RestoreSize; q != nil {
		s.capacity = q.Value()
	}
	s.content = named(c.SnapshotContents, func(o *VolumeSnapshotContent) *metav1.ObjectMeta { return &o.ObjectMeta }, "", s.snapshot.Status.Content)
	if s.content == nil {
		return
	}
	s.driver, s.mode = s.content.Spec.Driver, volume.Mode(s.content.Spec.SourceVolumeMode)
	s.diskBytes = s.capacity
	if s.mode == corev1.PersistentVolumeFilesystem {
		s.diskBytes = volume.OfClaim(corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: *s.snapshot.Status.RestoreSize},
		}}, cdiv1.DataVolumeSpec{}, c.volumes()).DiskBytes
	}
}

// driverOf is a claim's driver, taken from its bound volume or else from its class; empty: not known.
func (c Cluster) driverOf(claim *corev1.PersistentVolumeClaim) string {
	if pv := c.volume(claim.Spec.VolumeName); pv != nil && pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	if class := c.class(classOf(claim)); class != nil {
		return class.Provisioner
	}
	return ""
}

// classOf is the class that a claim names; empty: none.
func classOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

func (s source) className() string {
	if s.claim == nil {
		return ""
	}
	return classOf(s.claim)
}

// writers are the pods that run, or will, and mount a claim other than read-only.
func (c Cluster) writers(namespace, claim string) []string {
	var found []string
	for i := range c.Pods {
		p := &c.Pods[i]
		over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Namespace != namespace || over || !writes(p, claim) {
			continue
		}
		found = append(found, p.Name)
	}
	slices.Sort(found)
	return found
}

// writes says whether a pod may write to a claim: unless the claim, or each mount of it, is read-only.
func writes(p *corev1.Pod, claim string) bool {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim && !v.PersistentVolumeClaim.ReadOnly && !mountedReadOnly(p, v.Name) {
			return true
		}
	}
	return false
}

// mountedReadOnly says whether a volume is mounted, and never other than read-only. One that nobody mounts is attached all the same, and may be a device.
func mountedReadOnly(p *corev1.Pod, volume string) bool {
	mounted := false
	for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, m := range container.VolumeMounts {
			if m.Name == volume && !m.ReadOnly {
				return false
			}
			mounted = mounted || m.Name == volume
		}
	}
	return mounted
}

// dataNodes are the nodes that a volume's affinity lists by their names; nil: it doesn't.
func (c Cluster) dataNodes(pv *corev1.PersistentVolume) []string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	var nodes []string
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		i := slices.IndexFunc(term.MatchExpressions, func(e corev1.NodeSelectorRequirement) bool {
			return e.Operator == corev1.NodeSelectorOpIn && (e.Key == linstor.Hostname || e.Key == corev1.LabelHostname)
		})
		if i < 0 {
			return nil
		}
		for _, host := range term.MatchExpressions[i].Values {
			nodes = append(nodes, c.nodeOf(term.MatchExpressions[i].Key, host))
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// nodeOf is the node with a host's name in a label.
func (c Cluster) nodeOf(label, host string) string {
	for _, n := range c.Nodes {
		if n.Labels[label] == host {
			return n.Name
		}
	}
	return host
}

// driverNode is what a driver says of a node; nil: nothing.
func (c Cluster) driverNode(driver, node string) *storagev1.CSINodeDriver {
	for i := range c.DriverNodes {
		if c.DriverNodes[i].Name != node {
			continue
		}
		for j := range c.DriverNodes[i].Spec.Drivers {
			if c.DriverNodes[i].Spec.Drivers[j].Name == driver {
				return &c.DriverNodes[i].Spec.Drivers[j]
			}
		}
	}
	return nil
}
