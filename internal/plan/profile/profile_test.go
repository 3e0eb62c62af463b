package profile

import (
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
)

func TestStatus(t *testing.T) {
	now := metav1.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	set := func(m corev1.PersistentVolumeMode, a corev1.PersistentVolumeAccessMode) cdiv1.ClaimPropertySet {
		return cdiv1.ClaimPropertySet{AccessModes: []corev1.PersistentVolumeAccessMode{a}, VolumeMode: &m}
	}
	condition := func(status corev1.ConditionStatus, reason, message string) []cdiv1.StorageProfileCondition {
		c := cdiv1.StorageProfileCondition{Type: cdiv1.StorageProfileRecognized}
		c.Status, c.Reason, c.Message, c.LastTransitionTime, c.LastHeartbeatTime = status, reason, message, now, now
		return []cdiv1.StorageProfileCondition{c}
	}
	const block, files, once, many = corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem, corev1.ReadWriteOnce, corev1.ReadWriteMany
	for name, c := range map[string]struct {
		provisioner string
		parameters  map[string]string
		annotations map[string]string
		spec        cdiv1.StorageProfileSpec
		cluster     Cluster
		want        cdiv1.StorageProfileStatus
	}{
		"a known driver brings its modes and its way to clone": {
			provisioner: "linstor.csi.linbit.com",
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many), set(block, once), set(files, once)},
				CloneStrategy:     new(cdiv1.CloneStrategyCsiClone),
				Conditions:        condition(corev1.ConditionTrue, Recognized, ""),
			},
		},
		"an unknown driver gets what every driver can do, and it is said": {
			provisioner: "plain.csi.lab",
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(files, once)},
				CloneStrategy:     new(cdiv1.CloneStrategyHostAssisted),
				Conditions:        condition(corev1.ConditionFalse, Unrecognized, "provisioner plain.csi.lab is not known to vmdisk, so disks get ReadWriteOnce and Filesystem: if it can do better, set claimPropertySets in this profile's spec"),
			},
		},
		"a driver whose parameters tell what its volumes are": {
			provisioner: "csi.trident.netapp.io",
			parameters:  map[string]string{"backendType": "ontap-nas-economy"},
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(files, many), set(files, once)},
				CloneStrategy:     new(cdiv1.CloneStrategySnapshot),
				Conditions:        condition(corev1.ConditionTrue, Recognized, ""),
			},
		},
		"a driver whose parameters don't tell": {
			provisioner: "csi.trident.netapp.io",
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(files, once)},
				CloneStrategy:     new(cdiv1.CloneStrategyHostAssisted),
				Conditions:        condition(corev1.ConditionFalse, UnrecognizedParameters, "the parameters of StorageClass c don't tell which kind of volume csi.trident.netapp.io makes, so disks get ReadWriteOnce and Filesystem: if it can do better, set claimPropertySets in this profile's spec"),
			},
		},
		"the administrator's word wins": {
			provisioner: "plain.csi.lab",
			spec:        cdiv1.StorageProfileSpec{ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many)}, CloneStrategy: new(cdiv1.CloneStrategyHostAssisted)},
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many)},
				CloneStrategy:     new(cdiv1.CloneStrategyHostAssisted),
				Conditions:        condition(corev1.ConditionFalse, Unrecognized, "provisioner plain.csi.lab is not known to vmdisk; the claimPropertySets of this profile's spec are used"),
			},
		},
		"the class's annotation comes before the driver's way": {
			provisioner: "linstor.csi.linbit.com",
			annotations: map[string]string{cdi.CloneStrategyAnnotation: "copy"},
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many), set(block, once), set(files, once)},
				CloneStrategy:     new(cdiv1.CloneStrategyHostAssisted),
				Conditions:        condition(corev1.ConditionTrue, Recognized, ""),
			},
		},
		"a driver that nothing is known of, and that has a VolumeSnapshotClass, snapshots": {
			provisioner: "plain.csi.lab",
			annotations: map[string]string{cdi.CloneStrategyAnnotation: "cleverly"},
			spec:        cdiv1.StorageProfileSpec{ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many)}, CloneStrategy: new(cdiv1.CDICloneStrategy(""))},
			cluster:     Cluster{SnapshotDrivers: []string{"other.csi.lab", "plain.csi.lab"}},
			want: cdiv1.StorageProfileStatus{
				ClaimPropertySets: []cdiv1.ClaimPropertySet{set(block, many)},
				CloneStrategy:     new(cdiv1.CloneStrategySnapshot),
				Conditions:        condition(corev1.ConditionFalse, Unrecognized, "provisioner plain.csi.lab is not known to vmdisk; the claimPropertySets of this profile's spec are used"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: c.annotations}, Provisioner: c.provisioner, Parameters: c.parameters}
			c.want.StorageClass, c.want.Provisioner = &class.Name, &class.Provisioner
			got := Status(&cdiv1.StorageProfile{Spec: c.spec}, class, c.cluster, now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			again := Status(&cdiv1.StorageProfile{Spec: c.spec, Status: got}, class, c.cluster, metav1.Time{Time: now.Add(time.Hour)})
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("an hour later nothing has changed, and yet: %s", diff)
			}
		})
	}
}

// TestWhatParametersTell asks for the first and best mode, the number of modes, and the smallest volume.
func TestWhatParametersTell(t *testing.T) {
	type told struct {
		access corev1.PersistentVolumeAccessMode
		volume corev1.PersistentVolumeMode
		modes  int
		least  string
	}
	const block, files, once, many = corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem, corev1.ReadWriteOnce, corev1.ReadWriteMany
	for name, c := range map[string]struct {
		provisioner, key, value string
		want                    told
	}{
		"Longhorn's volumes are one node's":                {"driver.longhorn.io", "", "", told{once, block, 2, ""}},
		"unless they can migrate":                          {"driver.longhorn.io", "migratable", "true", told{many, block, 2, ""}},
		"or are served over NFS":                           {"driver.longhorn.io", "nfsOptions", "vers=4.2", told{many, files, 2, ""}},
		"a filer behind an array's driver":                 {"csi-powerstore.dellemc.com", fsType, "NFS", told{many, files, 2, ""}},
		"the array itself":                                 {"csi-powerstore.dellemc.com", fsType, "xfs", told{many, block, 3, ""}},
		"Portworx for NFS version 3":                       {"pxd.portworx.com", "sharedv4_mount_options", "vers=3.0,nolock", told{many, files, 2, ""}},
		"Portworx on a FlashArray":                         {"pxd.portworx.com", "backend", "pure_block", told{many, block, 3, ""}},
		"Amazon's io2 can be opened by several nodes":      {"ebs.csi.aws.com", "type", "io2", told{many, block, 3, "4Gi"}},
		"Amazon's gp3 can't":                               {"ebs.csi.aws.com", "type", "gp3", told{once, block, 2, "1Gi"}},
		"Amazon's default":                                 {"ebs.csi.aws.com", "", "", told{once, block, 2, ""}},
		"Google's hyperdisks":                              {"pd.csi.storage.gke.io", "type", "hyperdisk-balanced", told{many, block, 3, "4Gi"}},
		"Google's other disks":                             {"pd.csi.storage.gke.io", "type", "pd-ssd", told{once, block, 2, ""}},
		"Infinidat over a network of blocks":               {"infinibox-csi-driver", "storage_protocol", "fc", told{many, block, 3, ""}},
		"Infinidat over a network of files":                {"infinibox-csi-driver", "storage_protocol", "nfs_treeq", told{many, files, 2, ""}},
		"Infinidat, and the class doesn't say":             {"infinibox-csi-driver", "", "", told{once, files, 1, ""}},
		"vSphere's file services":                          {"csi.vsphere.vmware.com", fsType, "nfs4", told{many, files, 2, ""}},
		"NetApp's Google service sells a GiB at the least": {"csi.trident.netapp.io", "selector", "performance=flex", told{many, files, 2, "1Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			class := &storagev1.StorageClass{Provisioner: c.provisioner, Parameters: map[string]string{c.key: c.value}}
			sets := Status(&cdiv1.StorageProfile{}, class, Cluster{}, metav1.Time{}).ClaimPropertySets
			got := told{sets[0].AccessModes[0], *sets[0].VolumeMode, len(sets), Annotations(class)[cdi.MinimumClaimSize]}
			if got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestTheTableIsSound(t *testing.T) {
	for provisioner, kinds := range drivers() {
		for i, k := range kinds {
			for _, pattern := range k.when.patterns {
				if _, err := path.Match(pattern, ""); err != nil || pattern != strings.ToLower(pattern) {
					t.Errorf("%s: the pattern %q matches nothing: %v", provisioner, pattern, err)
				}
			}
			if k.when.key == "" && i != len(kinds)-1 {
				t.Errorf("%s: kind %d holds for every class, so those after it never count", provisioner, i)
			}
			if last := k.modes[len(k.modes)-1]; len(k.modes) > 8 || last.access != corev1.ReadWriteOnce {
				t.Errorf("%s: kind %d has the modes %v; a profile has at most 8, and what only one node needs comes last", provisioner, i, k.modes)
			}
			if k.least == "" {
				continue
			}
			if _, err := resource.ParseQuantity(k.least); err != nil {
				t.Errorf("%s: the smallest volume %q: %v", provisioner, k.least, err)
			}
		}
	}
}
