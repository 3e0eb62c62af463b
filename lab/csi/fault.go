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
	"time"

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
	// PVC is a pattern (path.Match) for the claim's "namespace/name".
	PVC string `json:"pvc,omitempty"`

	// DelayMillis is waited before anything else.
	DelayMillis int64 `json:"delayMs,omitempty"`
	// Code is the gRPC status with which the call ends, as its number; zero lets the call go on after the delay.
	Code codes.Code `json:"code,omitempty"`
	// Message goes with Code.
	Message string `json:"message,omitempty"`
	// After does the work first and then answers with Code, as if the driver had died before its answer was sent.
	After bool `json:"after,omitempty"`
	// Count is for how many calls the fault lasts; zero means until it is removed.
	Count int `json:"count,omitempty"`
}

func faultsFile(stateDir string) string { return filepath.Join(stateDir, "faults.json") }

// SetFaults replaces all faults of the driver process that uses the directory; none given means that all is well
// again. It takes effect with the next call. The first fault that matches a call is the one that applies.
func SetFaults(stateDir string, faults ...Fault) error {
	for _, fault := range faults {
		for _, pattern := range []string{fault.Volume, fault.PVC} {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Errorf("set faults: pattern %q: %w", pattern, err)
			}
		}
	}
	return withFaults(stateDir, func([]Fault) ([]Fault, bool) { return faults, true })
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

// takeFault returns the fault that applies to the call, and counts it.
func takeFault(stateDir string, c call) (Fault, bool, error) {
	var taken Fault
	var ok bool
	err := withFaults(stateDir, func(faults []Fault) ([]Fault, bool) {
		for i, fault := range faults {
			if !fault.matches(c) {
				continue
			}
			taken, ok = fault, true
			if fault.Count == 0 {
				return nil, false
			}
			if faults[i].Count--; faults[i].Count == 0 {
				faults = append(faults[:i:i], faults[i+1:]...)
			}
			return faults, true
		}
		return nil, false
	})
	return taken, ok, err
}

// call is what a fault can match on.
type call struct {
	driver, node, method, volume, pvc string
}

func (f Fault) matches(c call) bool {
	return (f.Driver == "" || f.Driver == c.driver) &&
		(f.Node == "" || f.Node == c.node) &&
		(f.Method == "" || f.Method == c.method) &&
		matchesPattern(f.Volume, c.volume) &&
		matchesPattern(f.PVC, c.pvc)
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
	stateDir, driver, node string
	volume                 func(id string) (volume, bool)
}

// Interfaces of the generated requests that name a volume.
type (
	namesVolume   interface{ GetVolumeId() string }
	createsVolume interface {
		GetName() string
		GetParameters() map[string]string
	}
)

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
		if v, ok := i.volume(c.volume); ok {
			c.pvc = v.PVC
		}
	case createsVolume:
		c.volume = volumeID(r.GetName())
		c.pvc = claimOf(r.GetParameters())
	}
	return c
}

func (i interceptor) apply(ctx context.Context, c call, do func() (any, error)) (any, error) {
	fault, ok, err := takeFault(i.stateDir, c)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "look for faults to play: %v", err)
	}
	if !ok {
		return do()
	}
	slog.InfoContext(ctx, "playing a fault", "method", c.method, "driver", c.driver, "node", c.node, "volume", c.volume, "fault", fault)
	select {
	case <-time.After(time.Duration(fault.DelayMillis) * time.Millisecond):
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if fault.Code == codes.OK {
		return do()
	}
	if fault.After {
		if _, err := do(); err != nil {
			return nil, err
		}
	}
	return nil, status.Error(fault.Code, fault.Message)
}
