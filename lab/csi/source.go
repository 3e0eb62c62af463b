package csi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a volume is made from: another volume, or a snapshot. Both are copied at once and in full, so that neither's end
// matters to the volume that came of it. A source in use is copied while it is written: only what reached its backing file
// counts, as after a crash.

// origin is a volume's source as far as making the volume needs it. The zero origin is that of a fresh volume.
type origin struct {
	file string
	kind kind
	// node is where a local source's bytes are.
	node  string
	bytes int64
	// clone is true for a volume, false for a snapshot.
	clone bool
}

// errStuck is the end of a clone that a driver with StuckClones would try for ever.
var errStuck = errors.New("the clone is asked for a node without the source's data")

// sourceKey names a volume's source: "volume/HANDLE", "snapshot/HANDLE", or nothing for a fresh volume.
func sourceKey(source *spec.VolumeContentSource) string {
	switch {
	case source.GetVolume() != nil:
		return "volume/" + source.GetVolume().GetVolumeId()
	case source.GetSnapshot() != nil:
		return "snapshot/" + source.GetSnapshot().GetSnapshotId()
	default:
		return ""
	}
}

// origin finds the source of a request.
func (c *controller) origin(source *spec.VolumeContentSource) (origin, error) {
	switch {
	case source == nil:
		return origin{}, nil
	case source.GetVolume() != nil && c.driver.Clones:
		v, ok := c.get(source.GetVolume().GetVolumeId())
		if !ok || !v.Ready || v.Driver != c.driver.Name {
			return origin{}, status.Errorf(codes.NotFound, "there is no volume %q to make a clone of", source.GetVolume().GetVolumeId())
		}
		return origin{file: BackingFile(c.stateDir, v.ID), kind: v.Kind, node: v.Node, bytes: v.Bytes, clone: true}, nil
	case source.GetSnapshot() != nil && c.driver.Snapshots:
		s, ok := c.getSnapshot(source.GetSnapshot().GetSnapshotId())
		if !ok || !s.Ready || s.Driver != c.driver.Name {
			return origin{}, status.Errorf(codes.NotFound, "there is no snapshot %q to restore", source.GetSnapshot().GetSnapshotId())
		}
		return origin{file: s.file(c.stateDir), kind: s.Kind, node: s.Node, bytes: s.Bytes}, nil
	default:
		return origin{}, status.Errorf(codes.InvalidArgument, "driver %s makes no volume from %s", c.driver.Name, sourceKey(source))
	}
}

// sizeFrom is the size of a volume for the range, which must hold all of its source.
func sizeFrom(r *spec.CapacityRange, from origin) (int64, error) {
	if r.GetRequiredBytes() == 0 && from.bytes > 0 {
		r = &spec.CapacityRange{RequiredBytes: from.bytes, LimitBytes: r.GetLimitBytes()}
	}
	size, err := sizeFor(r)
	if err == nil && size < from.bytes {
		return 0, status.Errorf(codes.OutOfRange, "the source has %d bytes, and a volume of %d is asked", from.bytes, size)
	}
	return size, err
}

// beside leaves those of the nodes on which the source's bytes are. The first node that a clone is asked for is the one that
// its consumer was given.
func (c *controller) beside(from origin, candidates []string, requirement *spec.TopologyRequirement) ([]string, error) {
	if from.kind != local || slices.Equal(candidates, []string{""}) {
		return candidates, nil
	}
	asked := len(requirement.GetPreferred())+len(requirement.GetRequisite()) > 0
	switch {
	case from.clone && c.driver.StuckClones && asked && candidates[0] != from.node:
		return nil, errStuck
	case !slices.Contains(candidates, from.node):
		return nil, status.Errorf(codes.ResourceExhausted, "the source's bytes are on node %s, and the volume is asked for %v", from.node, candidates)
	default:
		return []string{from.node}, nil
	}
}

// copyData makes the file hold what another holds: as shared extents where the filesystem has them, else its data and no
// byte of its holes.
func copyData(to *os.File, from string) error {
	source, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return status.Error(codes.NotFound, "the source was deleted meanwhile")
	}
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	defer source.Close()
	if unix.IoctlFileClone(int(to.Fd()), int(source.Fd())) == nil {
		return nil
	}
	for end := int64(0); ; {
		start, err := source.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // no data from here on
			return nil
		}
		if err == nil {
			end, err = source.Seek(start, unix.SEEK_HOLE)
		}
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(source, start, end-start))
		}
		if err != nil {
			return fmt.Errorf("copy the source: %w", err)
		}
	}
}
