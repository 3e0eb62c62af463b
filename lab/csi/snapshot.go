package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// snapshot is what the driver remembers of one snapshot. It counts towards no node's capacity, as on thin storage.
type snapshot struct {
	ID     string `json:"id"`
	Driver string `json:"driver"`
	Name   string `json:"name"`
	// Volume is the handle of the volume that it was made of, which may be gone by now; PVC is that one's claim.
	Volume string `json:"volume"`
	PVC    string `json:"pvc,omitempty"`
	// Kind and Node say where the bytes are, as a volume's do.
	Kind    kind      `json:"kind"`
	Node    string    `json:"node,omitempty"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
	// Ready is false until the file has its content.
	Ready bool `json:"ready"`
}

func (s snapshot) file(stateDir string) string {
	return filepath.Join(stateDir, snapshotsDir, s.ID+".img")
}

func (s snapshot) answer() *spec.Snapshot {
	return &spec.Snapshot{
		SnapshotId: s.ID, SourceVolumeId: s.Volume, SizeBytes: s.Bytes, CreationTime: timestamppb.New(s.Created), ReadyToUse: s.Ready,
	}
}

func (b *backend) getSnapshot(id string) (snapshot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.state.Snapshots[id]
	if !ok {
		return snapshot{}, false
	}
	return *s, true
}

func (b *backend) putSnapshot(s snapshot) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return replaceLocked(b, b.state.Snapshots, s.ID, &s)
}

func (b *backend) dropSnapshot(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return replaceLocked(b, b.state.Snapshots, id, nil)
}

func (c *controller) CreateSnapshot(_ context.Context, r *spec.CreateSnapshotRequest) (*spec.CreateSnapshotResponse, error) {
	if err := c.hasSnapshots(); err != nil {
		return nil, err
	}
	if err := required("name", r.GetName(), "source_volume_id", r.GetSourceVolumeId()); err != nil {
		return nil, err
	}
	id := volumeID(r.GetName())
	defer c.lock("snapshot/" + id)()
	s, exists := c.getSnapshot(id)
	switch {
	case exists && (s.Volume != r.GetSourceVolumeId() || s.Driver != c.driver.Name):
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s exists, of volume %s", id, s.Volume)
	case exists && s.Ready:
		return &spec.CreateSnapshotResponse{Snapshot: s.answer()}, nil
	}
	v, ok := c.get(r.GetSourceVolumeId())
	if !ok || !v.Ready || v.Driver != c.driver.Name {
		return nil, status.Errorf(codes.NotFound, "there is no volume %q to make a snapshot of", r.GetSourceVolumeId())
	}
	s = snapshot{
		ID: id, Driver: v.Driver, Name: r.GetName(), Volume: v.ID, PVC: v.PVC, Kind: v.Kind, Node: v.Node, Bytes: v.Bytes, Created: time.Now().UTC(),
	}
	// Remembered before there is a file, so that deleting it finds a half-made one.
	if err := c.putSnapshot(s); err != nil {
		return nil, err
	}
	if err := makeBackingFile(s.file(c.stateDir), volume{Bytes: s.Bytes}, BackingFile(c.stateDir, v.ID)); err != nil {
		return nil, err
	}
	s.Ready = true
	return &spec.CreateSnapshotResponse{Snapshot: s.answer()}, c.putSnapshot(s)
}

func (c *controller) DeleteSnapshot(_ context.Context, r *spec.DeleteSnapshotRequest) (*spec.DeleteSnapshotResponse, error) {
	if err := c.hasSnapshots(); err != nil {
		return nil, err
	}
	if err := required("snapshot_id", r.GetSnapshotId()); err != nil {
		return nil, err
	}
	defer c.lock("snapshot/" + r.GetSnapshotId())()
	s, ok := c.getSnapshot(r.GetSnapshotId())
	if !ok {
		return &spec.DeleteSnapshotResponse{}, nil
	}
	if err := os.Remove(s.file(c.stateDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("delete the snapshot's file: %w", err)
	}
	return &spec.DeleteSnapshotResponse{}, c.dropSnapshot(s.ID)
}

// ListSnapshots is how the sidecar learns the size of a snapshot whose VolumeSnapshotContent somebody made by hand.
func (c *controller) ListSnapshots(_ context.Context, r *spec.ListSnapshotsRequest) (*spec.ListSnapshotsResponse, error) {
	if err := c.hasSnapshots(); err != nil {
		return nil, err
	}
	all := c.snapshots(func(s snapshot) bool {
		return s.Driver == c.driver.Name && cmp.Or(r.GetSnapshotId(), s.ID) == s.ID && cmp.Or(r.GetSourceVolumeId(), s.Volume) == s.Volume
	})
	start := 0
	if token := r.GetStartingToken(); token != "" {
		var err error
		if start, err = strconv.Atoi(token); err != nil || start < 0 || start > len(all) {
			return nil, status.Errorf(codes.Aborted, "starting_token %q is none of this driver's: begin anew", token)
		}
	}
	end := len(all)
	response := &spec.ListSnapshotsResponse{}
	if most := int(r.GetMaxEntries()); most > 0 && start+most < end {
		end = start + most
		response.NextToken = strconv.Itoa(end)
	}
	for _, s := range all[start:end] {
		response.Entries = append(response.Entries, &spec.ListSnapshotsResponse_Entry{Snapshot: s.answer()})
	}
	return response, nil
}

// snapshots are those that are wanted, in the order of their IDs.
func (b *backend) snapshots(wanted func(snapshot) bool) []snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []snapshot
	for _, s := range b.state.Snapshots {
		if wanted(*s) {
			found = append(found, *s)
		}
	}
	slices.SortFunc(found, func(a, b snapshot) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

func (c *controller) hasSnapshots() error {
	if !c.driver.Snapshots {
		return status.Errorf(codes.Unimplemented, "driver %s makes no snapshots", c.driver.Name)
	}
	return nil
}
