package csi

import (
	"fmt"
	"math"
	"os"
	"strconv"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kind is where a volume's bytes can be reached from.
type kind string

const (
	// local volumes are on one node: node affinity, no access from elsewhere.
	local kind = "local"
	// replicated volumes can be attached to any node.
	replicated kind = "replicated"
)

// StorageClass parameters that the driver reads. All others are accepted and ignored, because classes written for the
// driver whose name we answer to carry its own.
const (
	// ParameterKind is "local" (the default) or "replicated".
	ParameterKind = "lab.vmdisk.io/kind"
	// ParameterDirty set to "true" fills fresh volumes with DirtyByte here and there, as a thick volume that somebody
	// else used before may be.
	ParameterDirty = "lab.vmdisk.io/dirty"

	parameterClaimName      = "csi.storage.k8s.io/pvc/name"
	parameterClaimNamespace = "csi.storage.k8s.io/pvc/namespace"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30

	// sizeUnit is what volume sizes are rounded up to, in bytes.
	sizeUnit = mib
	// defaultBytes is the size of a volume for which none was asked.
	defaultBytes = gib

	// DirtyByte fills the dirty parts of a volume made with ParameterDirty: the first 64 MiB, one MiB at each multiple
	// of 16 MiB, and the last MiB.
	DirtyByte   = 0xA5
	dirtyHead   = 64 * mib
	dirtyStride = 16 * mib
)

// claimOf returns "namespace/name" of the claim that the provisioner names with --extra-create-metadata.
func claimOf(parameters map[string]string) string {
	if parameters[parameterClaimName] == "" {
		return ""
	}
	return parameters[parameterClaimNamespace] + "/" + parameters[parameterClaimName]
}

func kindOf(parameters map[string]string) (kind, error) {
	switch k := kind(parameters[ParameterKind]); k {
	case "", local:
		return local, nil
	case replicated:
		return replicated, nil
	default:
		return "", status.Errorf(codes.InvalidArgument, "parameter %s is %q: it must be %q or %q", ParameterKind, k, local, replicated)
	}
}

func dirtyOf(parameters map[string]string) (bool, error) {
	text := parameters[ParameterDirty]
	if text == "" {
		return false, nil
	}
	dirty, err := strconv.ParseBool(text)
	if err != nil {
		return false, status.Errorf(codes.InvalidArgument, "parameter %s is %q: it must be true or false", ParameterDirty, text)
	}
	return dirty, nil
}

// sizeFor returns the size in bytes of a volume for the range: what is required, rounded up to whole MiB.
func sizeFor(r *spec.CapacityRange) (int64, error) {
	required, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if required < 0 || limit < 0 {
		return 0, status.Errorf(codes.InvalidArgument, "the size is asked as %d to %d bytes: neither may be negative", required, limit)
	}
	if limit > 0 && required > limit {
		return 0, status.Errorf(codes.InvalidArgument, "at least %d bytes are asked, and at most %d", required, limit)
	}
	if required > math.MaxInt64-sizeUnit {
		return 0, status.Errorf(codes.OutOfRange, "a volume of %d bytes is more than any disk has", required)
	}
	size := (required + sizeUnit - 1) / sizeUnit * sizeUnit
	if required == 0 {
		size = defaultBytes
		if limit > 0 {
			size = min(size, limit/sizeUnit*sizeUnit)
		}
	}
	if size == 0 || (limit > 0 && size > limit) {
		return 0, status.Errorf(codes.OutOfRange, "sizes are whole MiB, and none lies between %d and %d bytes", required, limit)
	}
	return size, nil
}

// refusal says why a volume can't be used with the capability; empty if it can. A local volume may have a shared mode, as with
// LINSTOR, whose profile asks ReadWriteMany everywhere: its node affinity keeps all its pods on one node.
func refusal(c *spec.VolumeCapability) string {
	mode := c.GetAccessMode().GetMode()
	fsType := c.GetMount().GetFsType()
	switch {
	case mode == spec.VolumeCapability_AccessMode_UNKNOWN:
		return "a volume capability has no access mode"
	case c.GetBlock() == nil && c.GetMount() == nil:
		return "a volume capability is neither block nor mount"
	case c.GetMount() != nil && sharedMode(c) && mode != spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:
		return fmt.Sprintf("access mode %s is not served for filesystems: an ext4 written from two nodes is lost; use volumeMode Block", mode)
	case fsType != "" && fsType != "ext4":
		return fmt.Sprintf("filesystem %q is not served: only ext4 is", fsType)
	}
	return ""
}

// sharedMode says whether the access mode lets several nodes attach the volume at once.
func sharedMode(c *spec.VolumeCapability) bool {
	switch c.GetAccessMode().GetMode() {
	case spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		spec.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:
		return true
	}
	return false
}

// makeBackingFile gives the file its size and first content: that of the file from, if there is one. What a call that was
// cut short has left is replaced.
func makeBackingFile(path string, v volume, from string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("make the backing file: %w", err)
	}
	defer f.Close() // what goes wrong shows in the writes below
	if from != "" {
		if err := copyData(f, from); err != nil {
			return err
		}
	}
	if err := f.Truncate(v.Bytes); err != nil {
		return fmt.Errorf("give the backing file %d bytes: %w", v.Bytes, err)
	}
	if v.Dirty && from == "" {
		return soil(f, v.Bytes)
	}
	return nil
}

// soil writes the pattern of a dirty volume.
func soil(f *os.File, size int64) error {
	pattern := make([]byte, mib)
	for i := range pattern {
		pattern[i] = DirtyByte
	}
	for offset := int64(0); offset < size; offset += mib {
		last := offset+mib >= size
		if offset >= dirtyHead && offset%dirtyStride != 0 && !last {
			continue
		}
		if _, err := f.WriteAt(pattern[:min(mib, size-offset)], offset); err != nil {
			return fmt.Errorf("fill the backing file with a pattern: %w", err)
		}
	}
	return nil
}

// growBackingFile makes the file, and the loop device if there is one, this large.
func growBackingFile(path string, bytes int64) error {
	if err := os.Truncate(path, bytes); err != nil {
		return fmt.Errorf("grow the backing file to %d bytes: %w", bytes, err)
	}
	device, attached, err := loopOf(path)
	if err != nil || !attached {
		return err
	}
	return refreshLoop(device)
}
