//go:build e2e

package e2e

import (
	"time"

	"google.golang.org/grpc/codes"

	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/csi"
)

// faults replaces the faults that the storage plays for this scenario, until the test ends; none given: all is well again.
// Others' scenarios keep theirs, so a fault must say whom it is for: by claim, volume or source.
func (n *tenant) faults(faults ...csi.Fault) {
	n.t.Helper()
	set := func(faults ...csi.Fault) error { return csi.SetFaults(cluster.CSIDir(), n.name, faults...) }
	if err := set(faults...); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := set(); err != nil {
			n.t.Error(err)
		}
	})
}

// What storage can do to a clone of the claim "namespace/name", which may be a pattern: making a volume from another volume or from a
// snapshot. Fresh volumes of the same claim, as a copy has them, are made all the same.

// clonesAnswer has the storage refuse, with a code and some words.
func clonesAnswer(claim string, code codes.Code, message string) csi.Fault {
	return csi.Fault{Method: "CreateVolume", Source: "*/*", PVC: claim, Code: code, Message: message}
}

// clonesHang has them never end.
func clonesHang(claim string) csi.Fault {
	return csi.Fault{Method: "CreateVolume", Source: "*/*", PVC: claim, DelayMillis: csi.Forever}
}

// clonesTake has them take so long, though the sidecar's calls end after a minute.
func clonesTake(claim string, time time.Duration) csi.Fault {
	return csi.Fault{Method: "CreateVolume", Source: "*/*", PVC: claim, DelayMillis: time.Milliseconds(), Background: true}
}

// clonesReachALimit has all but the first so many calls for clones refused.
func clonesReachALimit(claim string, most int) csi.Fault {
	return csi.Fault{Method: "CreateVolume", Source: "*/*", PVC: claim, Skip: most, Code: codes.ResourceExhausted, Message: "limit reached"}
}

// cloneKillsTheDriver has the driver die, for that long, when the next clone is asked for. It dies for everybody: no other scenario
// may run beside it.
func cloneKillsTheDriver(claim string, pause time.Duration) csi.Fault {
	return csi.Fault{Method: "CreateVolume", Source: "*/*", PVC: claim, Dies: true, DelayMillis: pause.Milliseconds(), Count: 1}
}

// snapshotsFail has no snapshot made of the claim.
func snapshotsFail(claim, message string) csi.Fault {
	return csi.Fault{Method: "CreateSnapshot", PVC: claim, Code: codes.Internal, Message: message}
}

// snapshotsHaveNoSize has the storage not say how large snapshots of the claim are.
func snapshotsHaveNoSize(claim string) csi.Fault {
	return csi.Fault{Method: "CreateSnapshot", PVC: claim, ZeroSize: true}
}

// growingIsInfeasible has the storage refuse, for good, to make the claim's volume larger.
func growingIsInfeasible(claim string) csi.Fault {
	return csi.Fault{Method: "ControllerExpandVolume", PVC: claim, Code: codes.OutOfRange, Message: "the pool's volumes don't grow"}
}
