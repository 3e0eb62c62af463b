package csi

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
)

func fromVolume(id string) *spec.VolumeContentSource {
	return &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Volume{Volume: &spec.VolumeContentSource_VolumeSource{VolumeId: id}}}
}

func fromSnapshot(id string) *spec.VolumeContentSource {
	return &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Snapshot{Snapshot: &spec.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

// snapshot makes a snapshot of a volume and returns its handle.
func (h *harness) snapshot(driver, name, volume string) string {
	h.t.Helper()
	made, err := h.controller(driver).CreateSnapshot(h.t.Context(), &spec.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
	if err != nil {
		h.t.Fatalf("create snapshot %s: %v", name, err)
	}
	return made.GetSnapshot().GetSnapshotId()
}

// golden makes a volume of 32 MiB with some text at two places and a hole between them, on a node (for a local one).
func (h *harness) golden(driver, node string, k kind) string {
	h.t.Helper()
	r := request("golden", 32*mib, block(many), ParameterKind, string(k))
	r.AccessibilityRequirements = onNode(driver, node)
	id := h.create(driver, r).GetVolumeId()
	writeAt(h.t, h.backing(id), 0, "the first bytes")
	writeAt(h.t, h.backing(id), 20*mib, "the later bytes")
	return id
}

func TestAVolumeIsMadeFromAnother(t *testing.T) {
	for name, test := range map[string]struct {
		driver string
		// golden and target are the kinds of the two volumes; the golden's bytes are on node-b.
		golden, target kind
		// prefers is the node that the target is asked for first, before all others.
		prefers string
		want    []string // the nodes from which it can be used; none: from all
	}{
		"a clone is where its source is":                                 {driver: copying, golden: local, target: local, prefers: "node-a", want: []string{"node-b"}},
		"with LINSTOR, a clone is made for a node with the bytes":        {driver: linstor, golden: local, target: local, prefers: "node-b", want: []string{"node-b"}},
		"a clone of what is everywhere is where it is asked for":         {driver: linstor, golden: replicated, target: local, prefers: "node-b", want: []string{"node-b"}},
		"a clone becomes replicated, too":                                {driver: linstor, golden: local, target: replicated, prefers: "node-a"},
		"a replicated clone of a replicated volume can be used anywhere": {driver: linstor, golden: replicated, target: replicated},
	} {
		for _, source := range []string{"volume", "snapshot"} {
			t.Run(name+", from a "+source, func(t *testing.T) {
				h := start(t)
				golden := h.golden(test.driver, "node-b", test.golden)
				r := request("pvc-1", 48*mib, block(many), ParameterKind, string(test.target), ParameterDirty, "true")
				r.VolumeContentSource = fromVolume(golden)
				if source == "snapshot" {
					r.VolumeContentSource = fromSnapshot(h.snapshot(test.driver, "snapshot-1", golden))
				}
				if test.prefers != "" {
					r.AccessibilityRequirements = onNode(test.driver, test.prefers)
				}
				for _, node := range []string{"node-a", "node-b"} {
					if r.AccessibilityRequirements != nil {
						r.AccessibilityRequirements.Requisite = append(r.AccessibilityRequirements.Requisite, onNode(test.driver, node).Preferred...)
					}
				}
				got := h.create(test.driver, r)
				want := &spec.Volume{VolumeId: "pvc-1", CapacityBytes: 48 * mib, ContentSource: r.VolumeContentSource}
				for _, node := range test.want {
					want.AccessibleTopology = append(want.AccessibleTopology, onNode(test.driver, node).Preferred...)
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("volume (-want +got):\n%s", diff)
				}
				h.expectGolden(got.GetVolumeId(), 48*mib)
			})
		}
	}
}

// expectGolden checks that the volume holds the golden's bytes and, behind them, zeros, and that holes stayed holes.
func (h *harness) expectGolden(id string, bytes int64) {
	h.t.Helper()
	expectSize(h.t, h.backing(id), bytes)
	got := map[string]string{
		"first": readAt(h.t, h.backing(id), 0, 15), "hole": readAt(h.t, h.backing(id), 10*mib, 2),
		"later": readAt(h.t, h.backing(id), 20*mib, 15), "last": readAt(h.t, h.backing(id), bytes-2, 2),
	}
	if diff := cmp.Diff(map[string]string{"first": "the first bytes", "hole": "\x00\x00", "later": "the later bytes", "last": "\x00\x00"}, got); diff != "" {
		h.t.Errorf("bytes of %s (-want +got):\n%s", id, diff)
	}
	if occupied := allocated(h.t, h.backing(id)); occupied > mib {
		h.t.Errorf("volume %s occupies %d bytes for some text", id, occupied)
	}
}

func TestAFilesystemIsClonedAndFillsALargerVolume(t *testing.T) {
	h := start(t)
	r := request("golden", 16*mib, filesystem(writer))
	r.AccessibilityRequirements = onNode(copying, "node-b")
	golden := h.create(copying, r).GetVolumeId()
	target := h.use(copying, "node-b", golden, filesystem(writer))
	if err := os.WriteFile(target+"/disk.img", []byte("a disk"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.release(copying, "node-b", golden)
	larger := request("pvc-1", 48*mib, filesystem(writer))
	larger.VolumeContentSource = fromVolume(golden)
	id := h.create(copying, larger).GetVolumeId()
	target = h.use(copying, "node-b", id, filesystem(writer))
	if got, err := os.ReadFile(target + "/disk.img"); err != nil || string(got) != "a disk" {
		t.Errorf("the clone's file reads %q (%v)", got, err)
	}
	stats, err := h.node(copying, "node-b").NodeGetVolumeStats(t.Context(), &spec.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: target})
	want(t, codes.OK, err)
	if bytes := stats.GetUsage()[0].GetTotal(); bytes < 32*mib {
		t.Errorf("the clone's filesystem has %d bytes on a volume of %d", bytes, 48*mib)
	}
}

func TestAVolumeThatCannotBeMadeFromItsSource(t *testing.T) {
	for name, test := range map[string]struct {
		driver string
		source *spec.VolumeContentSource
		bytes  int64
		node   string
		code   codes.Code
		says   string
	}{
		"a driver without clones":              {driver: plain, source: fromVolume("golden"), code: codes.InvalidArgument, says: "makes no volume from volume/golden"},
		"a driver without snapshots":           {driver: plain, source: fromSnapshot("snapshot-1"), code: codes.InvalidArgument, says: "makes no volume from snapshot/snapshot-1"},
		"a volume that isn't there":            {driver: copying, source: fromVolume("other"), code: codes.NotFound, says: `no volume "other"`},
		"a snapshot that isn't there":          {driver: copying, source: fromSnapshot("other"), code: codes.NotFound, says: `no snapshot "other"`},
		"another driver's volume":              {driver: linstor, source: fromVolume("golden"), code: codes.NotFound},
		"another driver's snapshot":            {driver: linstor, source: fromSnapshot("snapshot-1"), code: codes.NotFound},
		"a clone smaller than its source":      {driver: copying, source: fromVolume("golden"), bytes: 16 * mib, code: codes.OutOfRange, says: "33554432 bytes"},
		"a restore smaller than its snapshot":  {driver: copying, source: fromSnapshot("snapshot-1"), bytes: 16 * mib, code: codes.OutOfRange, says: "33554432 bytes"},
		"a clone for a node without the bytes": {driver: copying, source: fromVolume("golden"), node: "node-a", code: codes.ResourceExhausted, says: "on node node-b"},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			h.snapshot(copying, "snapshot-1", h.golden(copying, "node-b", local))
			r := request("pvc-1", max(test.bytes, 16*mib), block(writer))
			if test.bytes == 0 {
				r.CapacityRange = nil // as large as the source
			}
			if test.node != "" {
				r.AccessibilityRequirements = onNode(test.driver, test.node)
			}
			r.VolumeContentSource = test.source
			_, err := h.controller(test.driver).CreateVolume(t.Context(), r)
			want(t, test.code, err)
			if !strings.Contains(status.Convert(err).Message(), test.says) {
				t.Errorf("the refusal %q does not say %q", err, test.says)
			}
			if _, err := os.Stat(h.backing("pvc-1")); !os.IsNotExist(err) {
				t.Errorf("the refused volume has a file: %v", err)
			}
		})
	}
}

// With LINSTOR a clone for the wrong node never ends; asking again does not change that, nor does the driver's restart, and nothing stays
// behind. Asked for the right node, the same volume is made.
func TestACloneForANodeWithoutTheBytesHangsForEver(t *testing.T) {
	h := start(t)
	r := request("pvc-1", 32*mib, block(writer))
	r.VolumeContentSource = fromVolume(h.golden(linstor, "node-b", local))
	for _, restart := range []bool{false, false, true} {
		if restart {
			h.restart()
		}
		r.AccessibilityRequirements = onNode(linstor, "node-a")
		r.AccessibilityRequirements.Requisite = append(onNode(linstor, "node-a").Preferred, onNode(linstor, "node-b").Preferred...)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := h.controller(linstor).CreateVolume(ctx, r)
		cancel()
		want(t, codes.DeadlineExceeded, err)
	}
	r.AccessibilityRequirements = onNode(linstor, "node-b")
	h.expectGolden(h.create(linstor, r).GetVolumeId(), 32*mib)
}

func TestACloneIsAVolumeOfItsOwn(t *testing.T) {
	h := start(t)
	golden := h.golden(copying, "node-b", local)
	r := request("pvc-1", 32*mib, block(writer))
	r.VolumeContentSource = fromVolume(golden)
	first := h.create(copying, r)
	writeAt(t, h.backing(golden), 0, "something new..")
	_, err := h.controller(copying).DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: golden})
	want(t, codes.OK, err)
	h.restart()
	if diff := cmp.Diff(first, h.create(copying, r), protocmp.Transform()); diff != "" {
		t.Errorf("the same request, once the source was gone, made another volume (-first +second):\n%s", diff)
	}
	h.expectGolden(first.GetVolumeId(), 32*mib)
	r.VolumeContentSource = nil
	_, err = h.controller(copying).CreateVolume(t.Context(), r)
	want(t, codes.AlreadyExists, err)
}

func TestASnapshotOutlivesTheDriverAndItsVolume(t *testing.T) {
	h := start(t)
	golden := h.golden(copying, "node-b", local)
	made, err := h.controller(copying).CreateSnapshot(t.Context(), &spec.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: golden})
	want(t, codes.OK, err)
	writeAt(t, h.backing(golden), 0, "something new..")
	h.restart()
	held, err := Holdings(h.config.StateDir)
	if diff := cmp.Diff([]Holding{{Handle: "golden"}, {Handle: "snapshot-1", Snapshot: true}}, held); diff != "" || err != nil {
		t.Errorf("the storage holds (%v; -want +got):\n%s", err, diff)
	}
	again, err := h.controller(copying).CreateSnapshot(t.Context(), &spec.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: golden})
	want(t, codes.OK, err)
	if diff := cmp.Diff(made, again, protocmp.Transform()); diff != "" {
		t.Errorf("the same request made another snapshot (-first +second):\n%s", diff)
	}
	if s := made.GetSnapshot(); s.GetSizeBytes() != 32*mib || !s.GetReadyToUse() || s.GetCreationTime() == nil || s.GetSourceVolumeId() != golden {
		t.Errorf("the snapshot is %v", s)
	}
	_, err = h.controller(copying).DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: golden})
	want(t, codes.OK, err)
	r := request("pvc-1", 32*mib, block(writer))
	r.VolumeContentSource = fromSnapshot("snapshot-1")
	h.expectGolden(h.create(copying, r).GetVolumeId(), 32*mib)
	for range 2 {
		_, err = h.controller(copying).DeleteSnapshot(t.Context(), &spec.DeleteSnapshotRequest{SnapshotId: "snapshot-1"})
		want(t, codes.OK, err)
	}
	entries, err := os.ReadDir(h.config.StateDir + "/" + snapshotsDir)
	if err != nil || len(entries) > 0 {
		t.Errorf("the deleted snapshot left %v (%v)", entries, err)
	}
	h.restart()
	r.Name = "pvc-2"
	_, err = h.controller(copying).CreateVolume(t.Context(), r)
	want(t, codes.NotFound, err)
}

func TestASnapshotThatWasCutShortIsMadeAnew(t *testing.T) {
	h := start(t)
	golden := h.golden(copying, "node-b", local)
	h.stop()
	s, err := loadState(h.config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	half := snapshot{ID: "snapshot-1", Driver: copying, Name: "snapshot-1", Volume: golden, Kind: local, Node: "node-b", Bytes: mib}
	s.Snapshots[half.ID] = &half
	if err := s.save(h.config.StateDir); err != nil {
		t.Fatal(err)
	}
	h.run()
	r := request("pvc-1", 32*mib, block(writer))
	r.VolumeContentSource = fromSnapshot(half.ID)
	_, err = h.controller(copying).CreateVolume(t.Context(), r)
	want(t, codes.NotFound, err)
	h.snapshot(copying, half.Name, golden)
	h.expectGolden(h.create(copying, r).GetVolumeId(), 32*mib)
}

func TestSnapshotsAreListed(t *testing.T) {
	h := start(t)
	golden := h.golden(copying, "node-b", local)
	other := h.create(copying, request("other", mib, block(writer))).GetVolumeId()
	for name, volume := range map[string]string{"snapshot-1": golden, "snapshot-2": golden, "snapshot-3": other} {
		h.snapshot(copying, name, volume)
	}
	for name, test := range map[string]struct {
		request *spec.ListSnapshotsRequest
		want    []string
		next    string
	}{
		"all":                    {request: &spec.ListSnapshotsRequest{}, want: []string{"snapshot-1", "snapshot-2", "snapshot-3"}},
		"one":                    {request: &spec.ListSnapshotsRequest{SnapshotId: "snapshot-2"}, want: []string{"snapshot-2"}},
		"one that isn't there":   {request: &spec.ListSnapshotsRequest{SnapshotId: "snapshot-9"}},
		"those of a volume":      {request: &spec.ListSnapshotsRequest{SourceVolumeId: golden}, want: []string{"snapshot-1", "snapshot-2"}},
		"the first two":          {request: &spec.ListSnapshotsRequest{MaxEntries: 2}, want: []string{"snapshot-1", "snapshot-2"}, next: "2"},
		"those behind the first": {request: &spec.ListSnapshotsRequest{StartingToken: "2"}, want: []string{"snapshot-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := h.controller(copying).ListSnapshots(t.Context(), test.request)
			want(t, codes.OK, err)
			var got []string
			for _, entry := range response.GetEntries() {
				got = append(got, entry.GetSnapshot().GetSnapshotId())
			}
			if diff := cmp.Diff(test.want, got); diff != "" || response.GetNextToken() != test.next {
				t.Errorf("next token %q, snapshots (-want +got):\n%s", response.GetNextToken(), diff)
			}
		})
	}
}

func TestCapabilitiesFollowTheConfiguration(t *testing.T) {
	h := start(t)
	got := map[string]string{}
	for _, driver := range []string{attaching, plain, copying, linstor} {
		response, err := h.controller(driver).ControllerGetCapabilities(t.Context(), &spec.ControllerGetCapabilitiesRequest{})
		want(t, codes.OK, err)
		has := map[string]bool{}
		for _, c := range response.GetCapabilities() {
			if name := c.GetRpc().GetType().String(); strings.Contains(name, "CLONE") || strings.Contains(name, "SNAPSHOT") {
				has[name] = true
			}
		}
		got[driver] = strings.Join(slices.Sorted(maps.Keys(has)), " ")
	}
	all := "CLONE_VOLUME CREATE_DELETE_SNAPSHOT LIST_SNAPSHOTS"
	if diff := cmp.Diff(map[string]string{attaching: "", plain: "", copying: all, linstor: all}, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
	_, err := h.controller(plain).CreateSnapshot(t.Context(), &spec.CreateSnapshotRequest{Name: "s", SourceVolumeId: "v"})
	want(t, codes.Unimplemented, err)
}
