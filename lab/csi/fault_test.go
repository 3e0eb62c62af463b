package csi

import (
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

func TestFaultMatches(t *testing.T) {
	aCall := call{driver: plain, node: "node-a", method: "NodeStageVolume", volume: "pvc-1", pvc: "tenant-a/disk"}
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
		{Method: "NodeStageVolume", Node: "node-b", Code: codes.Internal, Message: "no"},
	}
	if err := SetFaults(h.config.StateDir, set...); err != nil {
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

	if err := SetFaults(h.config.StateDir, Fault{Method: "DeleteVolume", PVC: "tenant-a/bad", Code: codes.Internal}); err != nil {
		t.Fatal(err)
	}
	_, err = c.DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: "pvc-2"})
	want(t, codes.Internal, err)
	if err := SetFaults(h.config.StateDir); err != nil {
		t.Fatal(err)
	}
	_, err = c.DeleteVolume(t.Context(), &spec.DeleteVolumeRequest{VolumeId: "pvc-2"})
	want(t, codes.OK, err)
}

func TestFaultAfterTheWorkLosesOnlyTheAnswer(t *testing.T) {
	h := start(t)
	if err := SetFaults(h.config.StateDir, Fault{Method: "CreateVolume", Code: codes.DeadlineExceeded, After: true, Count: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := h.controller(plain).CreateVolume(t.Context(), request("pvc-1", mib, block(writer)))
	want(t, codes.DeadlineExceeded, err)
	expectSize(t, h.backing("pvc-1"), mib)
}

func TestFaultDelays(t *testing.T) {
	h := start(t)
	if err := SetFaults(h.config.StateDir, Fault{Method: "CreateVolume", DelayMillis: 50}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	h.create(plain, request("pvc-1", mib, block(writer)))
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("the call took %v, want at least 50ms", took)
	}
}

func TestSetFaultsRefusesABadPattern(t *testing.T) {
	if err := SetFaults(t.TempDir(), Fault{PVC: "["}); err == nil {
		t.Error("a pattern that can't match was accepted")
	}
}
