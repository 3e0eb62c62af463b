package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Fault makes matching calls slow, or makes them fail. An empty matcher matches everything; all given ones must match.
type Fault struct {
	// Driver and Node are names; calls on a controller socket have no node.
	Driver string `json:"driver,omitempty"`
	Node   string `json:"node,omitempty"`
	// Method is the call's name in the CSI specification, for example "CreateVolume" or "NodeStageVolume".
	Method string `json:"method,omitempty"`
	// Volume is a pattern (path.Match) for the volume's handle, which is the PersistentVolume's name.
	Volume string `json:"volume,omitempty"`
	// PVC is a pattern (path.Match) for the claim's "namespace/name"; a snapshot's is the claim that it was made of.
	PVC string `json:"pvc,omitempty"`
	// Source is a pattern (path.Match) for what a volume is made from, "volume/HANDLE" or "snapshot/HANDLE". A call that makes
	// none from anything matches no pattern.
	Source string `json:"source,omitempty"`
	// Skip is how many matching calls are left alone first.
	Skip int `json:"skip,omitempty"`

	// DelayMillis is waited before anything else.
	DelayMillis int64 `json:"delayMs,omitempty"`
	// Background has the delay count from the first call for each volume, even if that call has ended meanwhile, as for work
	// that goes on behind the calls.
	Background bool `json:"background,omitempty"`
	// Dies ends the driver's process in place of an answer, and keeps it from coming back for the time of the delay, which is
	// not waited before.
	Dies bool `json:"dies,omitempty"`
	// ZeroSize answers with snapshots that have no size.
	ZeroSize bool `json:"zeroSize,omitempty"`
	// Code is the gRPC status with which the call ends, as its number; zero lets the call go on after the delay.
	Code codes.Code `json:"code,omitempty"`
	// Message goes with Code.
	Message string `json:"message,omitempty"`
	// After does the work first and then answers with Code, as if the driver had died before its answer was sent.
	After bool `json:"after,omitempty"`
	// Count is for how many calls the fault lasts; zero means until it is removed.
	Count int `json:"count,omitempty"`

	// Owner is whose fault it is; SetFaults fills it in.
	Owner string `json:"owner,omitempty"`
	// Since is, with Background, when each volume's first call was, as the driver notes it.
	Since map[string]time.Time `json:"since,omitempty"`
}

// Forever is a delay that no call survives: it ends with the caller's deadline.
const Forever = int64(24 * time.Hour / time.Millisecond)

func faultsFile(stateDir string) string { return filepath.Join(stateDir, "faults.json") }

// SetFaults replaces the owner's faults of the driver process that uses the directory; none given means that all is well
// again, for that owner. It takes effect with the next call. The first fault that matches a call is the one that applies.
func SetFaults(stateDir, owner string, faults ...Fault) error {
	faults = slices.Clone(faults)
	for i, fault := range faults {
		for _, pattern := range []string{fault.Volume, fault.PVC, fault.Source} {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("set faults: pattern %q: %w", pattern, err)
			}
		}
		faults[i].Owner = owner
	}
	return withFaults(stateDir, func(all []Fault) ([]Fault, bool) {
		return append(slices.DeleteFunc(all, func(f Fault) bool { return f.Owner == owner }), faults...), true
	})
}

// ClearFaults removes the faults of all owners, those of killed tests among them.
func ClearFaults(stateDir string) error {
	return withFaults(stateDir, func([]Fault) ([]Fault, bool) { return nil, true })
}

// withFaults lets change see the faults and replace them, while no other process does the same.
func withFaults(stateDir string, change func([]Fault) (replacement []Fault, replace bool)) error {
	lock, err := os.OpenFile(filepath.Join(stateDir, "faults.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("lock the faults: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock the faults: %w", err)
	}
	var faults []Fault
	raw, err := os.ReadFile(faultsFile(stateDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("read the faults: %w", err)
	default:
		if err := json.Unmarshal(raw, &faults); err != nil {
			return fmt.Errorf("read the faults in %s: %w", faultsFile(stateDir), err)
		}
	}
	replacement, replace := change(faults)
	if !replace {
		return nil
	}
	return writeJSON(faultsFile(stateDir), replacement)
}

// takeFault returns the fault that applies to the call, and counts it. Of a fault with Background the delay is what is left.
func takeFault(stateDir string, c call, now time.Time) (Fault, bool, error) {
	var taken Fault
	var ok bool
	err := withFaults(stateDir, func(faults []Fault) ([]Fault, bool) {
		i := slices.IndexFunc(faults, func(f Fault) bool { return f.matches(c) })
		if i < 0 {
			return nil, false
		}
		if faults[i].Skip > 0 {
			faults[i].Skip--
			return faults, true
		}
		changed := faults[i].begin(c, now)
		taken, ok = faults[i], true
		if taken.Background {
			taken.DelayMillis = max(0, taken.DelayMillis-now.Sub(taken.Since[c.volume]).Milliseconds())
		}
		if taken.Count == 0 {
			return faults, changed
		}
		if faults[i].Count--; faults[i].Count == 0 {
			faults = slices.Delete(faults, i, i+1)
		}
		return faults, true
	})
	return taken, ok, err
}

// begin notes a volume's first call, of a fault with Background.
func (f *Fault) begin(c call, now time.Time) (changed bool) {
	if _, known := f.Since[c.volume]; known || !f.Background {
		return false
	}
	if f.Since == nil {
		f.Since = map[string]time.Time{}
	}
	f.Since[c.volume] = now
	return true
}

// call is what a fault can match on.
type call struct {
	driver, node, method, volume, pvc, source string
}

func (f Fault) matches(c call) bool {
	return (f.Driver == "" || f.Driver == c.driver) &&
		(f.Node == "" || f.Node == c.node) &&
		(f.Method == "" || f.Method == c.method) &&
		matchesPattern(f.Volume, c.volume) &&
		matchesPattern(f.PVC, c.pvc) &&
		matchesPattern(f.Source, c.source)
}

func matchesPattern(pattern, value string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, value)
	return err == nil && ok
}

// interceptor applies faults to the calls of one socket and writes one line per call.
type interceptor struct {
	*backend
	driver, node string
}

// namesVolume is the interface of the generated requests that name a volume.
type namesVolume interface{ GetVolumeId() string }

func (i interceptor) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c := i.describe(request, path.Base(info.FullMethod))
	start := time.Now()
	response, err := i.apply(ctx, c, func() (any, error) { return handler(ctx, request) })
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.Internal, err.Error())
	}
	level := slog.LevelInfo
	if c.volume == "" {
		level = slog.LevelDebug // probes and capabilities, asked all the time
	}
	attributes := []any{"method", c.method, "driver", c.driver, "node", c.node, "volume", c.volume, "pvc", c.pvc,
		"code", status.Code(err).String(), "took", time.Since(start).Round(time.Millisecond)}
	if err != nil {
		level = slog.LevelWarn
		attributes = append(attributes, "error", err)
	}
	slog.Log(ctx, level, "call", attributes...)
	return response, err
}

func (i interceptor) describe(request any, method string) call {
	c := call{driver: i.driver, node: i.node, method: method}
	switch r := request.(type) {
	case namesVolume:
		c.volume = r.GetVolumeId()
	case *spec.CreateVolumeRequest:
		c.volume = volumeID(r.GetName())
		c.pvc = claimOf(r.GetParameters())
		c.source = sourceKey(r.GetVolumeContentSource())
	case *spec.CreateSnapshotRequest:
		c.volume = r.GetSourceVolumeId()
	case *spec.DeleteSnapshotRequest:
		if s, ok := i.getSnapshot(r.GetSnapshotId()); ok {
			c.volume, c.pvc = s.Volume, s.PVC
		}
	}
	if v, ok := i.get(c.volume); ok && c.pvc == "" {
		c.pvc = v.PVC
	}
	return c
}

func (i interceptor) apply(ctx context.Context, c call, do func() (any, error)) (any, error) {
	fault, ok, err := takeFault(i.stateDir, c, time.Now())
	if err != nil {
		return nil, status.Errorf(codes.Internal, "look for faults to play: %v", err)
	}
	if !ok {
		return do()
	}
	slog.InfoContext(ctx, "playing a fault", "method", c.method, "driver", c.driver, "node", c.node, "volume", c.volume, "fault", fault)
	if fault.Dies {
		return nil, i.die(time.Duration(fault.DelayMillis) * time.Millisecond)
	}
	select {
	case <-time.After(time.Duration(fault.DelayMillis) * time.Millisecond):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if fault.Code == codes.OK {
		response, err := do()
		if fault.ZeroSize {
			forgetSizes(response)
		}
		return response, err
	}
	if fault.After {
		if _, err := do(); err != nil {
			return nil, err
		}
	}
	return nil, status.Error(fault.Code, fault.Message)
}

// forgetSizes makes an answer as storage gives it that doesn't know how large its snapshots are.
func forgetSizes(response any) {
	switch r := response.(type) {
	case *spec.CreateSnapshotResponse:
		if r.GetSnapshot() != nil {
			r.Snapshot.SizeBytes = 0
		}
	case *spec.ListSnapshotsResponse:
		for _, entry := range r.GetEntries() {
			entry.Snapshot.SizeBytes = 0
		}
	}
}
