package csi

import (
	"os"
	"strings"
	"syscall"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestCreateVolume(t *testing.T) {
	node := func(name string) []*spec.Topology {
		return []*spec.Topology{{Segments: map[string]string{TopologyKey(plain): name}}}
	}
	tests := map[string]struct {
		request *spec.CreateVolumeRequest
		place   *spec.TopologyRequirement
		want    *spec.Volume
		refused codes.Code
		says    string
	}{
		"a local volume goes to the preferred node": {
			request: request("pvc-1", 16*mib, filesystem(writer)),
			place:   onNode(plain, "node-b"),
			want:    &spec.Volume{VolumeId: "pvc-1", CapacityBytes: 16 * mib, AccessibleTopology: node("node-b")},
		},
		"a local volume goes on to a node with room": {
			request: request("pvc-1", 150*mib, filesystem(writer)),
			want:    &spec.Volume{VolumeId: "pvc-1", CapacityBytes: 150 * mib, AccessibleTopology: node("node-b")},
		},
		"a size is rounded up to whole MiB": {
			request: request("pvc-1", 16*mib+1, block(writer)),
			want:    &spec.Volume{VolumeId: "pvc-1", CapacityBytes: 17 * mib, AccessibleTopology: node("node-a")},
		},
		"a replicated volume can be reached from everywhere": {
			request: request("pvc-1", 16*mib, block(many), ParameterKind, "replicated"),
			place:   onNode(plain, "node-b"),
			want:    &spec.Volume{VolumeId: "pvc-1", CapacityBytes: 16 * mib},
		},
		"parameters of the driver whose name we answer to are accepted": {
			request: request("pvc-1", mib, block(writer), "linstor.csi.linbit.com/storagePool", "data"),
			want:    &spec.Volume{VolumeId: "pvc-1", CapacityBytes: mib, AccessibleTopology: node("node-a")},
		},
		"a name that can't be a file's gets another handle": {
			request: request("../Strange name", mib, block(writer)),
			want:    &spec.Volume{VolumeId: volumeID("../Strange name"), CapacityBytes: mib, AccessibleTopology: node("node-a")},
		},
		"a node that is too full refuses and says how much is left": {
			request: request("pvc-1", 101*mib, block(writer)),
			place:   onNode(plain, "node-a"),
			refused: codes.ResourceExhausted,
			says:    "node node-a has 104857600 of 104857600 bytes left, and the volume needs 105906176",
		},
		"a replicated volume needs room on every node": {
			request: request("pvc-1", 101*mib, block(writer), ParameterKind, "replicated"),
			refused: codes.ResourceExhausted,
			says:    "node node-a has",
		},
		"a filesystem is not shared between nodes": {
			request: request("pvc-1", mib, filesystem(many), ParameterKind, "replicated"),
			refused: codes.InvalidArgument,
			says:    "use volumeMode Block",
		},
		"an unknown kind is refused": {
			request: request("pvc-1", mib, block(writer), ParameterKind, "lokal"),
			refused: codes.InvalidArgument,
			says:    `must be "local" or "replicated"`,
		},
		"a range without whole MiB is refused": {
			request: &spec.CreateVolumeRequest{Name: "pvc-1", VolumeCapabilities: []*spec.VolumeCapability{block(writer)},
				CapacityRange: &spec.CapacityRange{RequiredBytes: mib + 1, LimitBytes: mib + 2}},
			refused: codes.OutOfRange,
			says:    "sizes are whole MiB",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			test.request.AccessibilityRequirements = test.place
			got, err := h.controller(plain).CreateVolume(t.Context(), test.request)
			want(t, test.refused, err)
			if !strings.Contains(status.Convert(err).Message(), test.says) {
				t.Errorf("the refusal %q does not say %q", err, test.says)
			}
			if diff := cmp.Diff(test.want, got.GetVolume(), protocmp.Transform()); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
			if test.want == nil {
				return
			}
			size, err := sizeOf(h.backing(test.want.GetVolumeId()))
			if err != nil || size != test.want.GetCapacityBytes() {
				t.Errorf("the backing file has %d bytes (%v), want %d", size, err, test.want.GetCapacityBytes())
			}
		})
	}
}

func TestCreateVolumeAgain(t *testing.T) {
	h := start(t)
	first := h.create(plain, request("pvc-1", 10*mib, block(writer)))
	if diff := cmp.Diff(first, h.create(plain, request("pvc-1", 10*mib, block(writer))), protocmp.Transform()); diff != "" {
		t.Errorf("the same request made another volume (-first +second):\n%s", diff)
	}
	_, err := h.controller(plain).CreateVolume(t.Context(), request("pvc-1", 20*mib, block(writer)))
	want(t, codes.AlreadyExists, err)
	_, err = h.controller(attaching).CreateVolume(t.Context(), request("pvc-1", 10*mib, block(writer)))
	want(t, codes.AlreadyExists, err)
}

func TestFreshVolumesAreSparseAndDirtyOnesAreNot(t *testing.T) {
	h := start(t)
	clean := h.create(plain, request("clean", 90*mib, block(writer))).GetVolumeId()
	if blocks := allocated(t, h.backing(clean)); blocks != 0 {
		t.Errorf("a fresh volume occupies %d bytes, want none", blocks)
	}
	dirty := h.create(plain, request("dirty", 90*mib, block(writer), ParameterDirty, "true")).GetVolumeId()
	pattern, zeros := "\xA5\xA5", "\x00\x00"
	got := map[string]string{}
	for name, offset := range map[string]int64{"start": 0, "63 MiB": 63 * mib, "64 MiB": 64 * mib, "65 MiB": 65 * mib, "80 MiB": 80 * mib, "end": 90*mib - 2} {
		got[name] = readAt(t, h.backing(dirty), offset, 2)
	}
	expected := map[string]string{"start": pattern, "63 MiB": pattern, "64 MiB": pattern, "65 MiB": zeros, "80 MiB": pattern, "end": pattern}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("bytes of a dirty volume (-want +got):\n%s", diff)
	}
}

func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s.Blocks * 512
}

func TestDeletedVolumesGiveTheirRoomBack(t *testing.T) {
	h := start(t)
	c := h.controller(plain)
	r := request("pvc-1", 100*mib, block(writer))
	r.AccessibilityRequirements = onNode(plain, "node-a")
	id := h.create(plain, r).GetVolumeId()
	free := func() int64 {
		t.Helper()
		got, err := c.GetCapacity(t.Context(), &spec.GetCapacityRequest{AccessibleTopology: onNode(plain, "node-a").GetPreferred()[0]})
		want(t, codes.OK, err)
		return got.GetAvailableCapacity()
	}
	if free() != 0 {
		t.Errorf("node-a has %d bytes left, want none", free())
	}
	for range 2 {
		_, err := c.DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: id})
		want(t, codes.OK, err)
	}
	if free() != 100*mib {
		t.Errorf("node-a has %d bytes left, want all %d", free(), 100*mib)
	}
	if _, err := os.Stat(h.backing(id)); !os.IsNotExist(err) {
		t.Errorf("the backing file is still there: %v", err)
	}
}

func TestAttachIsToOneNodeUnlessTheVolumeIsShared(t *testing.T) {
	tests := map[string]struct {
		create *spec.CreateVolumeRequest
		mode   *spec.VolumeCapability
		second codes.Code
		says   string
	}{
		"a ReadWriteOnce volume refuses a second node": {
			create: request("pvc-1", mib, block(writer), ParameterKind, "replicated"),
			mode:   block(writer),
			second: codes.FailedPrecondition,
			says:   "it is attached to node node-a",
		},
		"a ReadWriteMany volume takes both nodes": {
			create: request("pvc-1", mib, block(many), ParameterKind, "replicated"),
			mode:   block(many),
		},
		"a local volume refuses the other node": {
			create: request("pvc-1", mib, block(writer)),
			mode:   block(writer),
			second: codes.FailedPrecondition,
			says:   "its bytes are on node node-a",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			c := h.controller(attaching)
			id := h.create(attaching, test.create).GetVolumeId()
			publish := func(node string) error {
				_, err := c.ControllerPublishVolume(t.Context(), &spec.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: test.mode})
				return err
			}
			want(t, codes.OK, publish("node-a"))
			want(t, codes.OK, publish("node-a"))
			err := publish("node-b")
			want(t, test.second, err)
			if !strings.Contains(status.Convert(err).Message(), test.says) {
				t.Errorf("the refusal %q does not say %q", err, test.says)
			}
			_, err = c.DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: id})
			want(t, codes.FailedPrecondition, err)
		})
	}
}

func TestAttachMovesWithTheVolume(t *testing.T) {
	h := start(t)
	c := h.controller(attaching)
	id := h.create(attaching, request("pvc-1", mib, block(writer), ParameterKind, "replicated")).GetVolumeId()
	for _, node := range []string{"node-a", "node-b"} {
		_, err := c.ControllerPublishVolume(t.Context(), &spec.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: block(writer)})
		want(t, codes.OK, err)
		target := h.use(attaching, node, id, block(writer))
		if node == "node-a" {
			writeAt(t, target, 0, "hello")
		}
		if got := readAt(t, target, 0, 5); got != "hello" {
			t.Errorf("on %s the volume reads %q", node, got)
		}
		h.release(attaching, node, id)
		_, err = c.ControllerUnpublishVolume(t.Context(), &spec.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
		want(t, codes.OK, err)
	}
	_, err := c.ControllerPublishVolume(t.Context(), &spec.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "node-c", VolumeCapability: block(writer)})
	want(t, codes.NotFound, err)
}

func TestStagingNeedsTheAttachment(t *testing.T) {
	h := start(t)
	id := h.create(attaching, request("pvc-1", mib, block(writer))).GetVolumeId()
	staging, _ := h.paths("node-a", id)
	_, err := h.node(attaching, "node-a").NodeStageVolume(t.Context(), &spec.NodeStageVolumeRequest{
		VolumeId: id, StagingTargetPath: staging, VolumeCapability: block(writer)})
	want(t, codes.FailedPrecondition, err)
	_, err = h.controller(plain).ControllerPublishVolume(t.Context(), &spec.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "node-a", VolumeCapability: block(writer)})
	want(t, codes.Unimplemented, err)
}
