package profile

import (
	corev1 "k8s.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// fsType is the parameter in which classes of CSI drivers name the filesystem.
const fsType = "csi.storage.k8s.io/fstype"

// drivers is the table of provisioners. A driver has several kinds where its classes' parameters tell what its volumes are like: the
// first that holds counts. Block devices that several nodes can open come first, since a virtual machine on one can move to another
// node while it runs. The sources are the drivers' own manuals. Where the table is silent or wrong for a cluster, the spec of that
// class's profile wins.
func drivers() map[string][]kind {
	many := func(volume corev1.PersistentVolumeMode) claimMode { return claimMode{corev1.ReadWriteMany, volume} }
	once := func(volume corev1.PersistentVolumeMode) claimMode { return claimMode{corev1.ReadWriteOnce, volume} }
	const device, filesystem = corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	var (
		shared   = []claimMode{many(device), once(device), once(filesystem)}
		anything = []claimMode{many(device), many(filesystem), once(device), once(filesystem)}
		block    = []claimMode{once(device), once(filesystem)}
		files    = []claimMode{many(filesystem), once(filesystem)}
		single   = []claimMode{once(filesystem)}
	)
	const csi, snapshot, copying, unknown = cdiv1.CloneStrategyCsiClone, cdiv1.CloneStrategySnapshot, cdiv1.CloneStrategyHostAssisted, cdiv1.CDICloneStrategy("")
	always := func(modes []claimMode, clone cdiv1.CDICloneStrategy) []kind {
		return []kind{{modes: modes, clone: clone}}
	}
	local := func(modes []claimMode, clone cdiv1.CDICloneStrategy) []kind {
		return []kind{{modes: modes, clone: clone, local: true}}
	}
	when := func(key string, patterns ...string) parameter { return parameter{key, patterns} }
	nfsOr := func(modes []claimMode, clone cdiv1.CDICloneStrategy, nfs parameter) []kind {
		return []kind{{when: nfs, modes: files}, {modes: modes, clone: clone}}
	}
	portworx := []kind{
		{when: when("backend", "pure_block"), modes: shared, clone: csi},
		{when: when("backend", "pure_fa_file"), modes: files},
		{when: when("sharedv4_mount_options", "*vers=3.0*"), modes: files, clone: csi},
		{modes: anything, clone: csi},
	}
	ebs := []kind{
		{when: when("type", "io2"), modes: shared, least: "4Gi"},
		{when: when("type", "io1"), modes: block, least: "4Gi"},
		{when: when("type", "gp2", "gp3"), modes: block, least: "1Gi"},
		{modes: block},
	}
	return map[string][]kind{
		// A node's own disks.
		"kubevirt.io.hostpath-provisioner": local(single, copying),
		"kubevirt.io/hostpath-provisioner": local(single, copying),
		"k8s.io/minikube-hostpath":         local(single, copying),
		"rancher.io/local-path":            local(single, copying),
		"openebs.io/local":                 local(single, copying),
		"hostpath.csi.k8s.io":              local(block, snapshot),
		"topolvm.io":                       local(block, copying),
		"topolvm.cybozu.com":               local(block, copying),
		"local.csi.openebs.io":             local(block, snapshot),
		"zfs.csi.openebs.io":               local(block, csi),

		// Storage made of the nodes' disks.
		"linstor.csi.linbit.com":                always(shared, csi),
		"rbd.csi.ceph.com":                      always(shared, csi),
		"rook-ceph.rbd.csi.ceph.com":            always(shared, csi),
		"openshift-storage.rbd.csi.ceph.com":    always(shared, csi),
		"kubernetes.io/rbd":                     always(shared, unknown),
		"csi-rbdplugin":                         always(shared, csi),
		"cephfs.csi.ceph.com":                   always(files, csi),
		"rook-ceph.cephfs.csi.ceph.com":         always(files, csi),
		"openshift-storage.cephfs.csi.ceph.com": always(files, csi),
		"driver.longhorn.io": {
			{when: when("migratable", "true"), modes: []claimMode{many(device), once(device)}, clone: snapshot},
			{when: when("nfsOptions", "?*"), modes: files, clone: snapshot},
			{when: when("fsType", "?*"), modes: single, clone: snapshot},
			{modes: block, clone: snapshot},
		},
		"pxd.portworx.com":              portworx,
		"kubernetes.io/portworx-volume": portworx,
		"io.openebs.csi-mayastor":       always(block, snapshot),
		"kubesan.gitlab.io":             always(shared, csi),
		"storageos":                     always(single, unknown),
		"kubernetes.io/storageos":       always(single, unknown),

		// Arrays and filers.
		"csi-powermax.dellemc.com":   nfsOr(shared, csi, when(fsType, "nfs")),
		"csi-powerstore.dellemc.com": nfsOr(shared, copying, when(fsType, "nfs")),
		"csi-unity.dellemc.com":      nfsOr(shared, unknown, when("protocol", "nfs")),
		"csi-vxflexos.dellemc.com":   nfsOr(shared, csi, when(fsType, "nfs")),
		"csi-isilon.dellemc.com":     always(files, csi),
		"csi.hpe.com":                nfsOr(shared, csi, when("nfsResources", "true")),
		"csi.huawei.com":             nfsOr(shared, unknown, when("protocol", "nfs")),
		"hspc.csi.hitachi.com":       always(shared, csi),
		"block.csi.ibm.com":          always(shared, csi),
		"spectrumscale.csi.ibm.com":  always(files, csi),
		"infinibox-csi-driver": {
			{when: when("storage_protocol", "iscsi", "fc", "nvme"), modes: shared, clone: csi},
			{when: when("storage_protocol", "nfs", "nfs_treeq"), modes: files, clone: csi},
		},
		"pure-csi": nfsOr(shared, csi, when("backend", "file")),
		"csi.trident.netapp.io": {
			{when: when("selector", "*performance=flex*"), modes: files, clone: snapshot, least: "1Gi"},
			{when: when("backendType", "ontap-nas*", "azure-netapp-files", "google-cloud-netapp-volumes"), modes: files, clone: snapshot},
			{when: when("backendType", "ontap-san*", "solidfire-san"), modes: shared, clone: snapshot},
		},
		"csi.san.synology.com": nfsOr(block, unknown, when("protocol", "nfs", "smb")),

		// Network filesystems.
		"nfs.csi.k8s.io": always(files, copying),
		"k8s-sigs.io/nfs-subdir-external-provisioner":   always(files, copying),
		"cluster.local/nfs-subdir-external-provisioner": always(files, copying),
		"smb.csi.k8s.io": always(files, copying),

		// Clouds and other hypervisors.
		"ebs.csi.aws.com":           ebs,
		"ebs.csi.eks.amazonaws.com": ebs,
		"kubernetes.io/aws-ebs":     always(block, unknown),
		"efs.csi.aws.com":           always(files, copying),
		"disk.csi.azure.com":        always(block, unknown),
		"kubernetes.io/azure-disk":  always(block, unknown),
		"file.csi.azure.com":        always(files, copying),
		"kubernetes.io/azure-file":  always(files, copying),
		"pd.csi.storage.gke.io": {
			{when: when("type", "hyperdisk-balanced", "hyperdisk-balanced-high-availability"), modes: shared, clone: snapshot, least: "4Gi"},
			{modes: block, clone: snapshot},
		},
		"kubernetes.io/gce-pd":            always(block, unknown),
		"filestore.csi.storage.gke.io":    always(files, copying),
		"blockvolume.csi.oraclecloud.com": always(shared, unknown),
		"fss.csi.oraclecloud.com":         always(files, copying),
		"vpc.block.csi.ibm.io":            always(block, unknown),
		"diskplugin.csi.alibabacloud.com": always(block, unknown),
		"dobs.csi.digitalocean.com":       always(block, unknown),
		"csi.hetzner.cloud":               always(block, copying),
		"csi.vsphere.vmware.com":          nfsOr(block, unknown, when(fsType, "nfs*")),
		"kubernetes.io/vsphere-volume":    always(block, unknown),
		"cinder.csi.openstack.org":        always(block, snapshot),
		"kubernetes.io/cinder":            always(block, unknown),
		"manila.csi.openstack.org":        always(files, unknown),
		"csi.ovirt.org":                   always(block, unknown),
	}
}
