package csi

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

func TestFaultMatches(t *testing.T) {
	aCall := call{driver: plain, node: "node-a", method: "NodeStageVolume", volume: "pvc-1", pvc: "tenant-a/disk", source: "volume/golden"}
	tests := map[string]struct {
		fault Fault
		want  bool
	}{
		"an empty fault matches everything":          {Fault{}, true},
		"everything given must match":                {Fault{Driver: plain, Node: "node-a", Method: "NodeStageVolume", Volume: "pvc-*", PVC: "tenant-a/*"}, true},
		"another driver is left alone":               {Fault{Driver: attaching}, false},
		"another node is left alone":                 {Fault{Node: "node-b"}, false},
		"another method is left alone":               {Fault{Method: "NodeUnstageVolume"}, false},
		"another volume is left alone":               {Fault{Volume: "pvc-2"}, false},
		"another claim is left alone":                {Fault{PVC: "tenant-b/disk"}, false},
		"another source is left alone":               {Fault{Source: "snapshot/*"}, false},
		"any source of a kind can be meant":          {Fault{Source: "volume/*"}, true},
		"a star does not reach across the namespace": {Fault{PVC: "*"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.fault.matches(aCall); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestFaultsFailSomeCallsOfOneClaim(t *testing.T) {
	h := start(t)
	c := h.controller(plain)
	create := func(name, claim string) error {
		_, err := c.CreateVolume(t.Context(), request(name, mib, block(writer), parameterClaimNamespace, "tenant-a", parameterClaimName, claim))
		return err
	}
	set := []Fault{
		{Method: "CreateVolume", PVC: "tenant-a/bad", Code: codes.Unavailable, Message: "the pool is gone", Count: 2},
		{Owner: "test", Method: "NodeStageVolume", Node: "node-b", Code: codes.Internal, Message: "no"},
	}
	if err := SetFaults(h.config.StateDir, "test", set...); err != nil {
		t.Fatal(err)
	}
	want(t, codes.OK, create("pvc-1", "good"))
	want(t, codes.Unavailable, create("pvc-2", "bad"))
	want(t, codes.Unavailable, create("pvc-2", "bad"))
	want(t, codes.OK, create("pvc-2", "bad"))
	var left []Fault
	err := withFaults(h.config.StateDir, func(faults []Fault) ([]Fault, bool) {
		left = faults
		return nil, false
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(set[1:], left); diff != "" {
		t.Errorf("faults that are left (-want +got):\n%s", diff)
	}

	if err := SetFaults(h.config.StateDir, "test", Fault{Method: "DeleteVolume", PVC: "tenant-a/bad", Code: codes.Internal}); err != nil {
		t.Fatal(err)
	}
	_, err = c.DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: "pvc-2"})
	want(t, codes.Internal, err)
	if err := SetFaults(h.config.StateDir, "test"); err != nil {
		t.Fatal(err)
	}
	_, err = c.DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: "pvc-2"})
	want(t, codes.OK, err)
}

func TestFaultAfterTheWorkLosesOnlyTheAnswer(t *testing.T) {
	h := start(t)
	if err := SetFaults(h.config.StateDir, "test", Fault{Method: "CreateVolume", Code: codes.DeadlineExceeded, After: true, Count: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := h.controller(plain).CreateVolume(t.Context(), request("pvc-1", mib, block(writer)))
	want(t, codes.DeadlineExceeded, err)
	expectSize(t, h.backing("pvc-1"), mib)
}

func TestFaultMeansOnlyVolumesWithASource(t *testing.T) {
	fresh, clone := call{method: "CreateVolume"}, call{method: "CreateVolume", source: "volume/golden"}
	if f := (Fault{Source: "*/*"}); f.matches(fresh) || !f.matches(clone) {
		t.Errorf("a fault of clones: a fresh volume is met: %v, a clone: %v", f.matches(fresh), f.matches(clone))
	}
}

// A limit is met by the calls beyond it, and by all of them.
func TestFaultBeginsAfterSomeCalls(t *testing.T) {
	h := start(t)
	golden := h.golden(copying, "node-b", local)
	fault := Fault{Source: "volume/" + golden, Skip: 2, Code: codes.ResourceExhausted, Message: "limit reached"}
	if err := SetFaults(h.config.StateDir, "test", fault); err != nil {
		t.Fatal(err)
	}
	for i, code := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted, codes.ResourceExhausted} {
		r := request(fmt.Sprintf("pvc-%d", i), 32*mib, block(writer))
		r.VolumeContentSource = fromVolume(golden)
		_, err := h.controller(copying).CreateVolume(t.Context(), r)
		want(t, code, err)
	}
	h.create(copying, request("fresh", mib, block(writer)))
}

func TestFaultOfOneOwnerIsAnotherOnesToKeep(t *testing.T) {
	dir := t.TempDir()
	left := func() (owners []string) {
		err := withFaults(dir, func(faults []Fault) ([]Fault, bool) {
			for _, f := range faults {
				owners = append(owners, f.Owner+" "+f.Method)
			}
			return nil, false
		})
		if err != nil {
			t.Fatal(err)
		}
		return owners
	}
	for _, step := range []struct {
		do   func() error
		want []string
	}{
		{func() error { return SetFaults(dir, "a", Fault{Method: "CreateVolume"}) }, []string{"a CreateVolume"}},
		{func() error { return SetFaults(dir, "b", Fault{Method: "DeleteVolume"}) }, []string{"a CreateVolume", "b DeleteVolume"}},
		{func() error { return SetFaults(dir, "a", Fault{Method: "CreateSnapshot"}) }, []string{"b DeleteVolume", "a CreateSnapshot"}},
		{func() error { return SetFaults(dir, "b") }, []string{"a CreateSnapshot"}},
		{func() error { return ClearFaults(dir) }, nil},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, left()); diff != "" {
			t.Errorf("faults that are left (-want +got):\n%s", diff)
		}
	}
}

func TestFaultInTheBackgroundEndsAlthoughCallsGaveUp(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := SetFaults(dir, "test", Fault{DelayMillis: 90_000, Background: true}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		volume string
		after  time.Duration
		want   int64
	}{{"pvc-1", 0, 90_000}, {"pvc-1", time.Minute, 30_000}, {"pvc-2", time.Minute, 90_000}, {"pvc-1", 2 * time.Minute, 0}} {
		fault, ok, err := takeFault(dir, call{volume: step.volume}, now.Add(step.after))
		if err != nil || !ok || fault.DelayMillis != step.want {
			t.Errorf("%s after %s: delay %d (%v, %v), want %d", step.volume, step.after, fault.DelayMillis, ok, err, step.want)
		}
	}
}

func TestFaultHidesASnapshotsSize(t *testing.T) {
	h := start(t)
	golden := h.golden(copying, "node-b", local)
	if err := SetFaults(h.config.StateDir, "test", Fault{Driver: copying, ZeroSize: true}); err != nil {
		t.Fatal(err)
	}
	made, err := h.controller(copying).CreateSnapshot(t.Context(), &spec.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: golden})
	want(t, codes.OK, err)
	listed, err := h.controller(copying).ListSnapshots(t.Context(), &spec.ListSnapshotsRequest{})
	want(t, codes.OK, err)
	if made.GetSnapshot().GetSizeBytes() != 0 || len(listed.GetEntries()) != 1 || listed.GetEntries()[0].GetSnapshot().GetSizeBytes() != 0 {
		t.Errorf("made %v, listed %v: no size was wanted", made, listed)
	}
	r := request("pvc-1", 32*mib, block(writer))
	r.VolumeContentSource = fromSnapshot("snapshot-1")
	h.expectGolden(h.create(copying, r).GetVolumeId(), 32*mib)
}

// A snapshot's faults are those of the claim that it was made of, also once the volume is gone.
func TestFaultKnowsASnapshotsClaim(t *testing.T) {
	h := start(t)
	c := h.controller(copying)
	id := h.create(copying, request("pvc-1", mib, block(writer), parameterClaimNamespace, "tenant-a", parameterClaimName, "disk")).GetVolumeId()
	set := []Fault{
		{Method: "CreateSnapshot", PVC: "tenant-a/disk", Code: codes.Internal, Message: "no", Count: 1},
		{Method: "DeleteSnapshot", PVC: "tenant-a/disk", Code: codes.Internal, Message: "no"},
	}
	if err := SetFaults(h.config.StateDir, "test", set...); err != nil {
		t.Fatal(err)
	}
	_, err := c.CreateSnapshot(t.Context(), &spec.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: id})
	want(t, codes.Internal, err)
	h.snapshot(copying, "snapshot-1", id)
	_, err = c.DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: id})
	want(t, codes.OK, err)
	_, err = c.DeleteSnapshot(t.Context(), &spec.DeleteSnapshotRequest{SnapshotId: "snapshot-1"})
	want(t, codes.Internal, err)
}

func TestFaultEndsTheDriverForATime(t *testing.T) {
	h := start(t)
	h.create(copying, request("pvc-1", mib, block(writer)))
	pause := 200 * time.Millisecond
	set := Fault{Method: "CreateVolume", Dies: true, DelayMillis: pause.Milliseconds(), Count: 1}
	if err := SetFaults(h.config.StateDir, "test", set); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err := h.controller(copying).CreateVolume(t.Context(), request("pvc-2", mib, block(writer)))
	want(t, codes.Unavailable, err)
	if err := h.ended(); !errors.Is(err, errDied) {
		t.Fatalf("the driver ended with %v", err)
	}
	if _, err := os.Stat(h.backing("pvc-2")); !os.IsNotExist(err) {
		t.Errorf("the dead driver has made the volume: %v", err)
	}
	h.run() // returns once the driver answers
	if took := time.Since(begin); took < pause {
		t.Errorf("the driver was dead for %s, want %s", took, pause)
	}
	for _, id := range []string{"pvc-1", "pvc-2"} {
		h.create(copying, request(id, mib, block(writer)))
	}
}

func TestFaultDelays(t *testing.T) {
	h := start(t)
	if err := SetFaults(h.config.StateDir, "test", Fault{Method: "CreateVolume", DelayMillis: 50}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	h.create(plain, request("pvc-1", mib, block(writer)))
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("the call took %v, want at least 50ms", took)
	}
}

func TestSetFaultsRefusesABadPattern(t *testing.T) {
	if err := SetFaults(t.TempDir(), "test", Fault{PVC: "["}); err == nil {
		t.Error("a pattern that can't match was accepted")
	}
}
