package worker

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/job"
)

func TestADiskGrows(t *testing.T) {
	disk := fileTarget(t, 4<<20)
	if err := os.WriteFile(disk.Path, []byte("a guest's bytes"), 0o660); err != nil {
		t.Fatal(err)
	}
	got := Run(t.Context(), job.Spec{Grow: true, Target: disk}, options())
	want := job.Result{Version: job.Version, Outcome: job.Succeeded, VirtualBytes: 4 << 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	content, err := os.ReadFile(disk.Path)
	if err != nil || len(content) != 4<<20 || string(content[:15]) != "a guest's bytes" {
		t.Errorf("the disk has %d bytes, beginning with %q: %v", len(content), content[:15], err)
	}
}

// A device that was cloned is compared with the disk that it should have room for, and nothing on it is touched.
func TestADeviceIsOnlyCompared(t *testing.T) {
	device := dirtyDevice(t, 1<<20)
	for size, want := range map[int64]job.Result{
		1 << 20: {Version: job.Version, Outcome: job.Succeeded, VirtualBytes: 1 << 20},
		2 << 20: {Version: job.Version, Outcome: job.TargetFailed, Reason: "DeviceTooSmall",
			Message: "the disk needs 2097152 bytes, and the volume's device " + device + " has 1048576: the volume was made smaller than it was asked for"},
	} {
		got := Run(t.Context(), job.Spec{Grow: true, Target: job.Target{Kind: job.Block, Path: device, SizeBytes: size}}, options())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if b, err := os.ReadFile(device); err != nil || string(b[:4]) != "dirt" {
		t.Errorf("the device begins with %q, %v", b[:4], err)
	}
}

func TestAJobToGrowMakesNoDisk(t *testing.T) {
	for name, c := range map[string]struct {
		spec job.Spec
		want job.Result
	}{
		"there is none": {
			job.Spec{Grow: true, Target: job.Target{Kind: job.File, Path: "/nowhere/disk.img", SizeBytes: 1 << 20}},
			job.Result{Outcome: job.TargetFailed, Reason: "Missing", Message: "open /nowhere/disk.img to grow it: no such file or directory"},
		},
		"it is no device": {
			job.Spec{Grow: true, Target: job.Target{Kind: job.Block, Path: "/dev/null", SizeBytes: 1 << 20}},
			job.Result{Outcome: job.TargetFailed, Reason: "NotADevice", Message: "/dev/null is not a block device"},
		},
		"it has a source": {
			job.Spec{Grow: true, Source: job.Source{Blank: &job.Blank{}}, Target: fileTarget(t, 1<<20)},
			job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: "the job is to grow a disk, and names a source"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Version = job.Version
			if diff := cmp.Diff(c.want, Run(t.Context(), c.spec, options())); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Stat(c.spec.Target.Path); c.spec.Target.Kind == job.File && err == nil {
				t.Error("there is a disk now, without anybody's bytes")
			}
		})
	}
}
