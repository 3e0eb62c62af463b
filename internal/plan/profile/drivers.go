package profile

import (
	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// driver is what is known of a provisioner: the modes its volumes have, the best for a virtual machine first, and how it clones.
type driver struct {
	modes []claimMode
	clone cdiv1.CDICloneStrategy
}

type claimMode struct {
	access corev1.PersistentVolumeAccessMode
	volume corev1.PersistentVolumeMode
}

// The modes, written short: access, then volume.
var (
	manyBlock = claimMode{corev1.ReadWriteMany, corev1.PersistentVolumeBlock}
	manyFile  = claimMode{corev1.ReadWriteMany, corev1.PersistentVolumeFilesystem}
	onceBlock = claimMode{corev1.ReadWriteOnce, corev1.PersistentVolumeBlock}
	onceFile  = claimMode{corev1.ReadWriteOnce, corev1.PersistentVolumeFilesystem}
)

// drivers is the table of provisioners. Shared block devices come first, since a virtual machine on one can move to another node
// while it runs. Where the table is silent or wrong for a cluster, the spec of that class's profile wins.
func drivers() map[string]driver {
	shared := []claimMode{manyBlock, onceBlock, onceFile}
	sharedBoth := []claimMode{manyBlock, manyFile, onceBlock, onceFile}
	block := []claimMode{onceBlock, onceFile}
	files := []claimMode{manyFile, onceFile}
	single := []claimMode{onceFile}
	const csi, snapshot, copying = cdiv1.CloneStrategyCsiClone, cdiv1.CloneStrategySnapshot, cdiv1.CloneStrategyHostAssisted
	return map[string]driver{
		"linstor.csi.linbit.com":             {shared, csi},
		"rbd.csi.ceph.com":                   {shared, csi},
		"rook-ceph.rbd.csi.ceph.com":         {shared, csi},
		"openshift-storage.rbd.csi.ceph.com": {shared, csi},
		"cephfs.csi.ceph.com":                {files, csi},
		"rook-ceph.cephfs.csi.ceph.com":      {files, csi},
		"csi-rbdplugin":                      {shared, csi},
		"driver.longhorn.io":                 {sharedBoth, snapshot},
		"csi.trident.netapp.io":              {sharedBoth, snapshot},
		"pxd.portworx.com":                   {[]claimMode{manyBlock, onceBlock, manyFile, onceFile}, csi},
		"csi-powermax.dellemc.com":           {shared, snapshot},
		"csi-powerstore.dellemc.com":         {shared, snapshot},
		"csi-unity.dellemc.com":              {shared, snapshot},
		"csi-vxflexos.dellemc.com":           {shared, snapshot},
		"csi-isilon.dellemc.com":             {files, snapshot},
		"csi.hpe.com":                        {shared, csi},
		"csi.huawei.com":                     {shared, snapshot},
		"hspc.csi.hitachi.com":               {shared, csi},
		"block.csi.ibm.com":                  {shared, snapshot},
		"infinibox-csi-driver":               {shared, snapshot},
		"pure-csi":                           {shared, csi},
		"vsphere.csi.vmware.com":             {block, copying},
		"csi.vsphere.vmware.com":             {block, copying},
		"ebs.csi.aws.com":                    {block, snapshot},
		"efs.csi.aws.com":                    {files, copying},
		"pd.csi.storage.gke.io":              {block, snapshot},
		"disk.csi.azure.com":                 {block, csi},
		"file.csi.azure.com":                 {files, copying},
		"cinder.csi.openstack.org":           {shared, snapshot},
		"manila.csi.openstack.org":           {files, snapshot},
		"topolvm.io":                         {block, snapshot},
		"topolvm.cybozu.com":                 {block, snapshot},
		"openebs.io/local":                   {single, copying},
		"local.csi.openebs.io":               {block, snapshot},
		"zfs.csi.openebs.io":                 {block, csi},
		"io.openebs.csi-mayastor":            {block, snapshot},
		"nfs.csi.k8s.io":                     {files, copying},
		"smb.csi.k8s.io":                     {files, copying},
		"rancher.io/local-path":              {single, copying},
		"kubevirt.io.hostpath-provisioner":   {single, copying},
		"hostpath.csi.k8s.io":                {block, snapshot},
		"k8s.io/minikube-hostpath":           {single, copying},
	}
}

// sets is the driver's modes as a profile shows them; an unknown driver can do what every driver can.
func (d driver) sets() []cdiv1.ClaimPropertySet {
	modes := d.modes
	if len(modes) == 0 {
		modes = []claimMode{onceFile}
	}
	var sets []cdiv1.ClaimPropertySet
	for _, m := range modes {
		sets = append(sets, cdiv1.ClaimPropertySet{AccessModes: []corev1.PersistentVolumeAccessMode{m.access}, VolumeMode: &m.volume})
	}
	return sets
}
