package profile

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// kind is what is known of a driver's classes, or of those whose parameters are as when says.
type kind struct {
	when parameter
	// modes are those that its volumes have, the best for a virtual machine first. Read-only modes are left out: a disk is filled first.
	modes []claimMode
	// clone is how it clones best; empty: not known.
	clone cdiv1.CDICloneStrategy
	// least is the smallest volume that it makes, a quantity such as "4Gi"; empty: any.
	least string
	// local says that a volume is a part of one node's own disks, and can be used there only.
	local bool
}

type claimMode struct {
	access corev1.PersistentVolumeAccessMode
	volume corev1.PersistentVolumeMode
}

// parameter is a condition on a class's parameters: the one named key, in lower case, matches one of the patterns, which are those of
// package path. The zero parameter holds for every class.
type parameter struct {
	key      string
	patterns []string
}

func (p parameter) holds(parameters map[string]string) bool {
	if p.key == "" {
		return true
	}
	value := strings.ToLower(parameters[p.key])
	return slices.ContainsFunc(p.patterns, func(pattern string) bool {
		match, err := path.Match(pattern, value)
		return err == nil && match // a test reads every pattern of the table
	})
}

// kindOf finds what is known of a class, and says as a reason of Recognized whether anything is.
func kindOf(class *storagev1.StorageClass) (kind, string) {
	kinds, ok := drivers()[class.Provisioner]
	if !ok {
		return kind{}, Unrecognized
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.when.holds(class.Parameters) })
	if i < 0 {
		return kind{}, UnrecognizedParameters
	}
	return kinds[i], Recognized
}

// NodeLocal says whether a driver is known to make volumes that can be used on one node only.
func NodeLocal(provisioner string) bool {
	return slices.ContainsFunc(drivers()[provisioner], func(k kind) bool { return k.local })
}

// sets is the kind's modes as a profile shows them; an unknown driver can do what every driver can.
func (k kind) sets() []cdiv1.ClaimPropertySet {
	modes := k.modes
	if len(modes) == 0 {
		modes = []claimMode{{corev1.ReadWriteOnce, corev1.PersistentVolumeFilesystem}}
	}
	var sets []cdiv1.ClaimPropertySet
	for _, m := range modes {
		sets = append(sets, cdiv1.ClaimPropertySet{AccessModes: []corev1.PersistentVolumeAccessMode{m.access}, VolumeMode: &m.volume})
	}
	return sets
}
