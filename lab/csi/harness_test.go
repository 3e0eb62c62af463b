package csi

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"vmdisk.io/vmdisk/lab/mounts"
)

// The tests run on real loop devices and mounts, and so need root, as the lab does.

const (
	attaching = "attaching.csi.test" // attachRequired
	plain     = "plain.csi.test"     // not
	copying   = "copying.csi.test"   // clones and snapshots
)

// harness is a running driver process (in this one) and clients of its sockets.
type harness struct {
	t      *testing.T
	config Config
	stop   func()
	// ended waits until the driver has ended by itself, and returns what it ended with.
	ended func() error
}

func start(t *testing.T) *harness {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("these tests attach loop devices: run them as root")
	}
	dir, err := os.MkdirTemp("", "csi") // t.TempDir's names are too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, config: Config{
		StateDir: filepath.Join(dir, "state"),
		Drivers: []Driver{
			{Name: attaching, AttachRequired: true, ControllerSocket: filepath.Join(dir, "a.sock")},
			{Name: plain, ControllerSocket: filepath.Join(dir, "p.sock")},
			{Name: copying, Clones: true, Snapshots: true, ControllerSocket: filepath.Join(dir, "c.sock")},
			{Name: linstor, Clones: true, Snapshots: true, StuckClones: true, ControllerSocket: filepath.Join(dir, "l.sock")},
		},
		Nodes: []Node{
			{Name: "node-a", KubeletDir: filepath.Join(dir, "a"), CapacityBytes: 100 * mib},
			{Name: "node-b", KubeletDir: filepath.Join(dir, "b"), CapacityBytes: 200 * mib},
		},
	}}
	t.Cleanup(func() {
		h.stop()
		if err := mounts.Free(dir); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	h.run()
	return h
}

// run starts the driver; h.stop ends it.
func (h *harness) run() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, h.config) }()
	stopped := false
	h.ended = func() error {
		stopped = true
		defer cancel()
		return <-done
	}
	h.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	}
	last := h.config.Nodes[len(h.config.Nodes)-1].Socket(h.config.Drivers[len(h.config.Drivers)-1].Name)
	probe := spec.NewIdentityClient(h.dial(last))
	if _, err := probe.Probe(h.t.Context(), &spec.ProbeRequest{}, grpc.WaitForReady(true)); err != nil {
		h.t.Fatalf("the driver does not answer: %v", err)
	}
}

func (h *harness) restart() {
	h.stop()
	h.run()
}

func (h *harness) dial(socket string) *grpc.ClientConn {
	h.t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: time.Second,
			Backoff:           backoff.Config{BaseDelay: 2 * time.Millisecond, Multiplier: 1.5, MaxDelay: 20 * time.Millisecond},
		}))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return conn
}

func (h *harness) controller(driver string) spec.ControllerClient {
	for _, d := range h.config.Drivers {
		if d.Name == driver {
			return spec.NewControllerClient(h.dial(d.ControllerSocket))
		}
	}
	h.t.Fatalf("no driver %q", driver)
	return nil
}

func (h *harness) node(driver, name string) spec.NodeClient {
	for _, n := range h.config.Nodes {
		if n.Name == name {
			return spec.NewNodeClient(h.dial(n.Socket(driver)))
		}
	}
	h.t.Fatalf("no node %q", name)
	return nil
}

// create makes a volume and returns its handle.
func (h *harness) create(driver string, r *spec.CreateVolumeRequest) *spec.Volume {
	h.t.Helper()
	response, err := h.controller(driver).CreateVolume(h.t.Context(), r)
	if err != nil {
		h.t.Fatalf("create volume %s: %v", r.GetName(), err)
	}
	return response.GetVolume()
}

// want fails the test unless err has the code.
func want(t *testing.T, code codes.Code, err error) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("got %s (%v), want %s", status.Code(err), err, code)
	}
}

func request(name string, bytes int64, c *spec.VolumeCapability, parameters ...string) *spec.CreateVolumeRequest {
	r := &spec.CreateVolumeRequest{
		Name:               name,
		CapacityRange:      &spec.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities: []*spec.VolumeCapability{c},
		Parameters:         map[string]string{},
	}
	for i := 0; i < len(parameters); i += 2 {
		r.Parameters[parameters[i]] = parameters[i+1]
	}
	return r
}

func onNode(driver, node string) *spec.TopologyRequirement {
	return &spec.TopologyRequirement{Preferred: []*spec.Topology{{Segments: map[string]string{TopologyKey(driver): node}}}}
}

func block(mode spec.VolumeCapability_AccessMode_Mode) *spec.VolumeCapability {
	return &spec.VolumeCapability{
		AccessMode: &spec.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &spec.VolumeCapability_Block{Block: &spec.VolumeCapability_BlockVolume{}},
	}
}

func filesystem(mode spec.VolumeCapability_AccessMode_Mode) *spec.VolumeCapability {
	return &spec.VolumeCapability{
		AccessMode: &spec.VolumeCapability_AccessMode{Mode: mode},
		AccessType: &spec.VolumeCapability_Mount{Mount: &spec.VolumeCapability_MountVolume{}},
	}
}

const (
	writer = spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	many   = spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
)

// use stages and publishes a volume on a node and returns the path at which it shows.
func (h *harness) use(driver, nodeName, id string, c *spec.VolumeCapability) (target string) {
	h.t.Helper()
	if err := h.tryUse(driver, nodeName, id, c); err != nil {
		h.t.Fatal(err)
	}
	_, target = h.paths(nodeName, id)
	return target
}

func (h *harness) tryUse(driver, nodeName, id string, c *spec.VolumeCapability) error {
	client := h.node(driver, nodeName)
	staging, target := h.paths(nodeName, id)
	if _, err := client.NodeStageVolume(h.t.Context(), &spec.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: c}); err != nil {
		return fmt.Errorf("stage %s: %w", id, err)
	}
	if _, err := client.NodePublishVolume(h.t.Context(), &spec.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: c}); err != nil {
		return fmt.Errorf("publish %s: %w", id, err)
	}
	return nil
}

// release undoes use.
func (h *harness) release(driver, nodeName, id string) {
	h.t.Helper()
	if err := h.tryRelease(driver, nodeName, id); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) tryRelease(driver, nodeName, id string) error {
	client := h.node(driver, nodeName)
	staging, target := h.paths(nodeName, id)
	if _, err := client.NodeUnpublishVolume(h.t.Context(), &spec.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target}); err != nil {
		return fmt.Errorf("unpublish %s: %w", id, err)
	}
	if _, err := client.NodeUnstageVolume(h.t.Context(), &spec.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging}); err != nil {
		return fmt.Errorf("unstage %s: %w", id, err)
	}
	return nil
}

// roundTrip writes to the volume in one use and reads it in the next.
func (h *harness) roundTrip(driver, nodeName, id string, c *spec.VolumeCapability, text string) error {
	if err := h.tryUse(driver, nodeName, id, c); err != nil {
		return err
	}
	_, file := h.paths(nodeName, id)
	if c.GetMount() != nil {
		file = filepath.Join(file, "file")
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	if err := h.tryRelease(driver, nodeName, id); err != nil {
		return err
	}
	if err := h.tryUse(driver, nodeName, id, c); err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(f, got); err != nil {
		return fmt.Errorf("read volume %s: %w", id, err)
	}
	if string(got) != text {
		return fmt.Errorf("volume %s reads %q, want %q", id, got, text)
	}
	return nil
}

func (h *harness) paths(nodeName, id string) (staging, target string) {
	dir := filepath.Join(filepath.Dir(h.config.StateDir), "pods", nodeName, id)
	return filepath.Join(dir, "staging"), filepath.Join(dir, "target")
}

func (h *harness) backing(id string) string { return BackingFile(h.config.StateDir, id) }

// loopFor returns the volume's loop device, or "".
func (h *harness) loopFor(id string) string {
	h.t.Helper()
	device, _, err := loopOf(h.backing(id))
	if err != nil {
		h.t.Fatal(err)
	}
	return device
}

// writeAt writes to the file or device at path, and syncs.
func writeAt(t *testing.T, path string, offset int64, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), offset); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

func readAt(t *testing.T, path string, offset int64, length int) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buffer := make([]byte, length)
	if n, err := f.ReadAt(buffer, offset); err != nil {
		t.Fatal(fmt.Errorf("read %s at %d: got %d bytes: %w", path, offset, n, err))
	}
	return string(buffer)
}
