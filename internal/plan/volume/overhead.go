package volume

import (
	"math/big"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"vmdisk.io/vmdisk/api/cdi"
)

// MiB is the grain of CDI's arithmetic with sizes.
const MiB = 1 << 20

// sectorBytes is the grain of a disk.
const sectorBytes = 512

// Inflated is the size of a claim whose filesystem has room for a disk of size bytes: ⌈(1+overhead) × size⌉, the size first
// rounded up to MiB. KubeVirt computes the same.
func Inflated(size int64, overhead cdiv1.Percent) int64 {
	factor := new(big.Rat).Add(big.NewRat(1, 1), rat(overhead))
	product := factor.Mul(factor, new(big.Rat).SetInt64(roundUp(size, MiB)))
	quotient, rest := new(big.Int).QuoRem(product.Num(), product.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient.Int64()
}

// RequestFor is what a claim that exists must ask for, so that a disk of size bytes fits: on a filesystem more, for its overhead.
func RequestFor(claim corev1.PersistentVolumeClaimSpec, size int64, cluster Cluster) int64 {
	if Mode(claim.VolumeMode) != corev1.PersistentVolumeFilesystem {
		return size
	}
	return Inflated(size, overheadOf(cluster.ClassOf(claim), cluster.Config))
}

// Usable is the largest disk on a filesystem claim of size bytes: size ÷ (1+overhead), rounded down to MiB.
func Usable(size int64, overhead cdiv1.Percent) int64 {
	factor := new(big.Rat).Add(big.NewRat(1, 1), rat(overhead))
	share := new(big.Rat).Quo(new(big.Rat).SetInt64(size), factor)
	return new(big.Int).Quo(share.Num(), share.Denom()).Int64() / MiB * MiB
}

// rat reads a share such as "0.06". The CRD's pattern admits nothing else; what can't be read counts as the default.
func rat(p cdiv1.Percent) *big.Rat {
	if r, ok := new(big.Rat).SetString(string(p)); ok && r.Sign() >= 0 && r.Cmp(big.NewRat(1, 1)) <= 0 {
		return r
	}
	r, _ := new(big.Rat).SetString(cdi.DefaultOverhead)
	return r
}

// overheadOf is the overhead in force for a class: its own entry, else the global one, else the default.
func overheadOf(class *storagev1.StorageClass, config *cdiv1.CDIConfig) cdiv1.Percent {
	if config == nil || config.Status.FilesystemOverhead == nil {
		return cdi.DefaultOverhead
	}
	table := config.Status.FilesystemOverhead
	if class != nil {
		if p, ok := table.StorageClass[class.Name]; ok {
			return p
		}
	}
	if table.Global == "" {
		return cdi.DefaultOverhead
	}
	return table.Global
}

func roundUp(n, grain int64) int64 { return (n + grain - 1) / grain * grain }
