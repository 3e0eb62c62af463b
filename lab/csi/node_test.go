package csi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func TestBlockVolumeIsUsedAndGrown(t *testing.T) {
	h := start(t)
	id := h.create(plain, request("pvc-1", 4*mib, block(writer))).GetVolumeId()
	target := h.use(plain, "node-a", id, block(writer))
	h.use(plain, "node-a", id, block(writer)) // again, as a kubelet does after it restarted
	var s unix.Stat_t
	if err := unix.Stat(target, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFBLK {
		t.Fatalf("the target is no block device: mode %o, %v", s.Mode, err)
	}
	expectSize(t, target, 4*mib)
	writeAt(t, target, 3*mib, "bytes of the guest")
	if got := readAt(t, h.backing(id), 3*mib, 5); got != "bytes" {
		t.Errorf("the backing file reads %q where the device was written", got)
	}

	grown, err := h.controller(plain).ControllerExpandVolume(t.Context(), &spec.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &spec.CapacityRange{RequiredBytes: 6 * mib}, VolumeCapability: block(writer)})
	want(t, codes.OK, err)
	if grown.GetCapacityBytes() != 6*mib || grown.GetNodeExpansionRequired() {
		t.Errorf("expansion answered %v", grown)
	}
	expectSize(t, target, 6*mib)

	h.release(plain, "node-a", id)
	h.release(plain, "node-a", id)
	if device := h.loopFor(id); device != "" {
		t.Errorf("the volume is unstaged and still has %s", device)
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Errorf("the target is still there: %v", err)
	}
}

func expectSize(t *testing.T, path string, bytes int64) {
	t.Helper()
	size, err := sizeOf(path)
	if err != nil || size != bytes {
		t.Errorf("%s has %d bytes (%v), want %d", path, size, err, bytes)
	}
}

func TestFilesystemVolumeIsUsedAndGrown(t *testing.T) {
	h := start(t)
	id := h.create(plain, request("pvc-1", 16*mib, filesystem(writer), ParameterDirty, "true")).GetVolumeId()
	target := h.use(plain, "node-a", id, filesystem(writer))
	h.use(plain, "node-a", id, filesystem(writer))
	if err := os.WriteFile(filepath.Join(target, "disk.img"), []byte("a disk"), 0o660); err != nil {
		t.Fatal(err)
	}
	before := total(t, h, id, target)

	grown, err := h.controller(plain).ControllerExpandVolume(t.Context(), &spec.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &spec.CapacityRange{RequiredBytes: 48 * mib}, VolumeCapability: filesystem(writer)})
	want(t, codes.OK, err)
	if !grown.GetNodeExpansionRequired() {
		t.Error("a filesystem must be grown by the node too")
	}
	_, err = h.node(plain, "node-a").NodeExpandVolume(t.Context(), &spec.NodeExpandVolumeRequest{VolumeId: id, VolumePath: target})
	if canGrowOnline() {
		want(t, codes.OK, err)
	} else {
		want(t, codes.FailedPrecondition, err)
		h.release(plain, "node-a", id)
		target = h.use(plain, "node-a", id, filesystem(writer))
		// The kubelet asks again, with the pod there.
		_, err = h.node(plain, "node-a").NodeExpandVolume(t.Context(), &spec.NodeExpandVolumeRequest{VolumeId: id, VolumePath: target})
		want(t, codes.OK, err)
	}
	if after := total(t, h, id, target); after < before+24*mib {
		t.Errorf("the filesystem had %d bytes and has %d", before, after)
	}
	got, err := os.ReadFile(filepath.Join(target, "disk.img"))
	if err != nil || string(got) != "a disk" {
		t.Errorf("the second use reads %q (%v): was the filesystem made again?", got, err)
	}
	_, err = h.controller(plain).DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: id})
	want(t, codes.FailedPrecondition, err)
}

func TestFilesystemGrowsBeforeItsPodStarts(t *testing.T) {
	h := start(t)
	id := h.create(plain, request("pvc-1", 16*mib, filesystem(writer))).GetVolumeId()
	h.use(plain, "node-a", id, filesystem(writer))
	staging, target := h.paths("node-a", id)
	_, err := h.node(plain, "node-a").NodeUnpublishVolume(t.Context(), &spec.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
	want(t, codes.OK, err)
	before := total(t, h, id, staging)
	_, err = h.controller(plain).ControllerExpandVolume(t.Context(), &spec.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &spec.CapacityRange{RequiredBytes: 48 * mib}, VolumeCapability: filesystem(writer)})
	want(t, codes.OK, err)
	for range 2 {
		_, err = h.node(plain, "node-a").NodeExpandVolume(t.Context(), &spec.NodeExpandVolumeRequest{
			VolumeId: id, VolumePath: staging, VolumeCapability: filesystem(writer)})
		want(t, codes.OK, err)
	}
	if after := total(t, h, id, staging); after < before+24*mib {
		t.Errorf("the filesystem had %d bytes and has %d", before, after)
	}
}

func total(t *testing.T, h *harness, id, path string) int64 {
	t.Helper()
	stats, err := h.node(plain, "node-a").NodeGetVolumeStats(t.Context(), &spec.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
	want(t, codes.OK, err)
	return stats.GetUsage()[0].GetTotal()
}

func TestReadOnlyPublication(t *testing.T) {
	h := start(t)
	id := h.create(plain, request("pvc-1", 16*mib, filesystem(writer))).GetVolumeId()
	h.use(plain, "node-a", id, filesystem(writer))
	staging, target := h.paths("node-a", id)
	target += "-ro"
	_, err := h.node(plain, "node-a").NodePublishVolume(t.Context(), &spec.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, TargetPath: target, VolumeCapability: filesystem(writer), Readonly: true})
	want(t, codes.OK, err)
	if err := os.WriteFile(filepath.Join(target, "f"), nil, 0o600); err == nil {
		t.Error("a read-only publication was written to")
	}
	_, err = h.node(plain, "node-a").NodeUnpublishVolume(t.Context(), &spec.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
	want(t, codes.OK, err)
}

func TestVolumesInUseSurviveARestart(t *testing.T) {
	h := start(t)
	id := h.create(plain, request("pvc-1", 16*mib, filesystem(writer))).GetVolumeId()
	target := h.use(plain, "node-a", id, filesystem(writer))
	device := h.loopFor(id)
	h.restart()
	if err := os.WriteFile(filepath.Join(target, "f"), []byte("still here"), 0o600); err != nil {
		t.Errorf("the volume is gone after the restart: %v", err)
	}
	h.use(plain, "node-a", id, filesystem(writer))
	if got := h.loopFor(id); got != device {
		t.Errorf("the volume was on %s and is on %q after the restart", device, got)
	}
	h.release(plain, "node-a", id)
	if got := h.loopFor(id); got != "" {
		t.Errorf("the volume is unstaged and still has %s", got)
	}
}

func TestAVolumeStagedAgainKeepsADeviceThatSomebodyHadOpen(t *testing.T) {
	h := start(t)
	id := h.create(plain, request("pvc-1", 4*mib, block(writer))).GetVolumeId()
	h.use(plain, "node-a", id, block(writer))
	somebody, err := os.Open(h.loopFor(id)) // a program that looks at new devices, say
	if err != nil {
		t.Fatal(err)
	}
	h.release(plain, "node-a", id)
	target := h.use(plain, "node-a", id, block(writer))
	if err := somebody.Close(); err != nil {
		t.Fatal(err)
	}
	writeAt(t, target, 0, "hello")
	if got := readAt(t, h.backing(id), 0, 5); got != "hello" {
		t.Errorf("the backing file reads %q where the device was written", got)
	}
}

func TestKubeletFindsTheDriver(t *testing.T) {
	h := start(t)
	for _, n := range h.config.Nodes {
		client := registration.NewRegistrationClient(h.dial(n.RegistrationSocket(attaching)))
		info, err := client.GetInfo(t.Context(), &registration.InfoRequest{})
		want(t, codes.OK, err)
		if info.GetName() != attaching || info.GetType() != registration.CSIPlugin || info.GetEndpoint() != n.Socket(attaching) {
			t.Errorf("the registration of %s says %v", n.Name, info)
		}
		got, err := h.node(attaching, n.Name).NodeGetInfo(t.Context(), &spec.NodeGetInfoRequest{})
		want(t, codes.OK, err)
		if got.GetNodeId() != n.Name || got.GetAccessibleTopology().GetSegments()[TopologyKey(attaching)] != n.Name {
			t.Errorf("node %s says it is %v", n.Name, got)
		}
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	h := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second := h.config
	if err := Run(ctx, second); err == nil || !strings.Contains(err.Error(), "another driver process") {
		t.Errorf("a second process on the same state got %v", err)
	}
}

func TestFilesystemsCostLessThanWhatDisksAreEnlargedBy(t *testing.T) {
	h := start(t)
	h.stop()
	h.config.Nodes[0].CapacityBytes = 100 * gib
	h.run()
	for name, bytes := range map[string]int64{"64mi": 64 * mib, "600mi": 600 * mib, "1gi": gib, "5gi": 5 * gib} {
		id := h.create(plain, request(name, bytes, filesystem(writer))).GetVolumeId()
		target := h.use(plain, "node-a", id, filesystem(writer))
		var s unix.Statfs_t
		if err := unix.Statfs(target, &s); err != nil {
			t.Fatal(err)
		}
		if free := int64(s.Bavail) * s.Bsize; free < bytes*94/100 {
			t.Errorf("of a volume of %d bytes only %d are free", bytes, free)
		}
		h.release(plain, "node-a", id)
	}
}

func TestManyVolumesAtOnce(t *testing.T) {
	h := start(t)
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() {
			c, text := block(writer), fmt.Sprintf("volume %d", i)
			if i%2 == 0 {
				c = filesystem(writer)
			}
			r := request(fmt.Sprintf("pvc-%d", i), 16*mib, c)
			r.AccessibilityRequirements = onNode(plain, "node-b")
			created, err := spec.NewControllerClient(h.dial(h.config.Drivers[1].ControllerSocket)).CreateVolume(t.Context(), r)
			if err != nil {
				t.Errorf("create %s: %v", r.GetName(), err)
				return
			}
			if err := h.roundTrip(plain, "node-b", created.GetVolume().GetVolumeId(), c, text); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}
