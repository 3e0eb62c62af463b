package csi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"vmdisk.io/vmdisk/lab/lockfile"
)

// volume is what the driver remembers of one volume. What the kernel knows (loop devices, mounts) is not in here.
type volume struct {
	ID     string `json:"id"`
	Driver string `json:"driver"`
	Name   string `json:"name"`
	// PVC is "namespace/name" of the claim, if the provisioner told it (--extra-create-metadata).
	PVC  string `json:"pvc,omitempty"`
	Kind kind   `json:"kind"`
	// Node is where a local volume is; empty for a replicated one.
	Node  string `json:"node,omitempty"`
	Bytes int64  `json:"bytes"`
	Dirty bool   `json:"dirty,omitempty"`
	// Source is what the volume was made from, as sourceKey names it; empty for a fresh one.
	Source string `json:"source,omitempty"`
	// Ready is false until the backing file has its size and content.
	Ready bool `json:"ready"`
	// Published names the nodes to which the volume is attached.
	Published map[string]publication `json:"published,omitempty"`
	// Staged names the nodes that use the loop device.
	Staged map[string]bool `json:"staged,omitempty"`
}

// publication is how a volume is attached to one node.
type publication struct {
	ReadOnly bool `json:"readOnly,omitempty"`
	// Shared is true if the access mode allows other nodes beside this one.
	Shared bool `json:"shared,omitempty"`
}

// state is the state file.
type state struct {
	Volumes   map[string]*volume   `json:"volumes"`
	Snapshots map[string]*snapshot `json:"snapshots,omitempty"`
}

// lockWait is how long a starting process waits for an earlier one to end.
const lockWait = 10 * time.Second

func stateFile(stateDir string) string { return filepath.Join(stateDir, "state.json") }

// lockStateDir makes this process the only one that uses the directory, until the returned file is closed or the
// process ends.
func lockStateDir(ctx context.Context, stateDir string) (*os.File, error) {
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("not free within %s", lockWait))
	defer cancel()
	lock, err := lockfile.Take(ctx, filepath.Join(stateDir, "lock"), func() {
		slog.Info("waiting for another driver process to end", "stateDir", stateDir)
	})
	if err != nil {
		return nil, fmt.Errorf("use the state directory alone: %w: another driver process uses it, stop that one first", err)
	}
	return lock, nil
}

func loadState(stateDir string) (state, error) {
	s := state{Volumes: map[string]*volume{}, Snapshots: map[string]*snapshot{}}
	raw, err := os.ReadFile(stateFile(stateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read the driver's state: %w", err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return state{}, fmt.Errorf("read the driver's state %s: %w: delete the state directory to start afresh", stateFile(stateDir), err)
	}
	return s, nil
}

// Holding is a volume or a snapshot that the storage holds, whether or not the cluster knows of it.
type Holding struct {
	Handle string
	// PVC is "namespace/name" of the claim that it was made for, or that the snapshot was made of.
	PVC      string
	Snapshot bool
}

// Holdings are all of them, the half-made ones, too.
func Holdings(stateDir string) ([]Holding, error) {
	s, err := loadState(stateDir)
	if err != nil {
		return nil, err
	}
	var all []Holding
	for _, id := range slices.Sorted(maps.Keys(s.Volumes)) {
		all = append(all, Holding{Handle: id, PVC: s.Volumes[id].PVC})
	}
	for _, id := range slices.Sorted(maps.Keys(s.Snapshots)) {
		all = append(all, Holding{Handle: id, PVC: s.Snapshots[id].PVC, Snapshot: true})
	}
	return all, nil
}

func (s state) save(stateDir string) error {
	return writeJSON(stateFile(stateDir), s)
}

// writeJSON replaces the file in one step, so that a reader never sees half of it. It is not synced: it survives the
// death of the process, not that of the machine, and neither do loop devices.
func writeJSON(path string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// backend is the storage that all sockets of one process share.
type backend struct {
	stateDir string
	nodes    map[string]Node
	// stop ends the process, for a reason.
	stop context.CancelCauseFunc

	mu    sync.Mutex
	state state
	busy  map[string]*sync.Mutex // one lock per ID of a volume or snapshot, held for a whole call
}

func newBackend(config Config, stateDir string, stop context.CancelCauseFunc) (*backend, error) {
	for _, dir := range []string{volumesDir, snapshotsDir} {
		if err := os.MkdirAll(filepath.Join(stateDir, dir), 0o755); err != nil {
			return nil, fmt.Errorf("make the directory of the %s: %w", dir, err)
		}
	}
	s, err := loadState(stateDir)
	if err != nil {
		return nil, err
	}
	nodes := make(map[string]Node, len(config.Nodes))
	for _, n := range config.Nodes {
		nodes[n.Name] = n
	}
	return &backend{stateDir: stateDir, nodes: nodes, stop: stop, state: s, busy: map[string]*sync.Mutex{}}, nil
}

// lock keeps other calls away from the volume or snapshot until the returned function is called.
func (b *backend) lock(id string) (unlock func()) {
	b.mu.Lock()
	lock, ok := b.busy[id]
	if !ok {
		lock = &sync.Mutex{}
		b.busy[id] = lock
	}
	b.mu.Unlock()
	lock.Lock()
	return lock.Unlock
}

// get returns a copy of the volume.
func (b *backend) get(id string) (volume, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.state.Volumes[id]
	if !ok {
		return volume{}, false
	}
	return v.clone(), true
}

func (v *volume) clone() volume {
	c := *v
	c.Published = maps.Clone(v.Published)
	c.Staged = maps.Clone(v.Staged)
	return c
}

// put stores the volume, after allow (which may be nil) has seen the others and found it acceptable.
func (b *backend) put(v volume, allow func(others []volume) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if allow != nil {
		if err := allow(b.othersLocked(v.ID)); err != nil {
			return err
		}
	}
	stored := v.clone()
	return replaceLocked(b, b.state.Volumes, v.ID, &stored)
}

// replaceLocked puts a value in one of the state's maps, or takes it out (nil), and saves. What can't be saved has not
// happened.
func replaceLocked[V any](b *backend, in map[string]*V, id string, value *V) error {
	previous, existed := in[id]
	if in[id] = value; value == nil {
		delete(in, id)
	}
	err := b.state.save(b.stateDir)
	switch {
	case err == nil:
	case existed:
		in[id] = previous
	default:
		delete(in, id)
	}
	return err
}

func (b *backend) othersLocked(id string) []volume {
	others := make([]volume, 0, len(b.state.Volumes))
	for _, key := range slices.Sorted(maps.Keys(b.state.Volumes)) {
		if key != id {
			others = append(others, b.state.Volumes[key].clone())
		}
	}
	return others
}

// others returns all volumes except the one with this ID, in the order of their IDs.
func (b *backend) others(id string) []volume {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.othersLocked(id)
}

// drop forgets the volume.
func (b *backend) drop(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return replaceLocked(b, b.state.Volumes, id, nil)
}

// The directories of the backing files, in the state directory.
const (
	volumesDir   = "volumes"
	snapshotsDir = "snapshots"
)

// safeName is a volume's or snapshot's name that can be a file's name as it is; the sidecars' "pvc-<uid>" and
// "snapshot-<uid>" always are.
var safeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,99}$`)

// volumeID derives the handle from the name that the caller chose, so that CreateVolume is idempotent even if its
// answer was lost.
func volumeID(name string) string {
	if safeName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "volume-" + hex.EncodeToString(sum[:16])
}

// BackingFile is the sparse file that holds the bytes of the volume with this handle (a PersistentVolume's
// spec.csi.volumeHandle). Reading it shows what a consumer has synced; the blocks that stat(2) counts are those that
// the volume really occupies.
func BackingFile(stateDir, volumeHandle string) string {
	return filepath.Join(realPath(stateDir), volumesDir, volumeHandle+".img")
}

// realPath resolves symbolic links, because the kernel reports backing files that way. A path that does not exist yet
// is returned as it is.
func realPath(dir string) string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved
	}
	return filepath.Clean(dir)
}
