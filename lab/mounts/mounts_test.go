package mounts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestMountsBelowComeTheDeepestAndLatestFirst(t *testing.T) {
	points, err := parse(`22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:30 / /lab/node-a/run/x/rootfs rw shared:1 - overlay overlay rw
31 22 0:31 / /lab/node-a/pods/1 rw - tmpfs tmpfs rw
32 31 7:1 /loop1 /lab/node-a/pods/1 rw - ext4 /dev/loop1 rw
33 22 0:33 / /laboratory rw - tmpfs tmpfs rw
34 22 0:34 / /lab/with\040space rw - tmpfs tmpfs rw
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Point{
		{Device: "0:30", Root: "/", Target: "/lab/node-a/run/x/rootfs", FSType: "overlay"},
		{Device: "7:1", Root: "/loop1", Target: "/lab/node-a/pods/1", FSType: "ext4"},
		{Device: "0:31", Root: "/", Target: "/lab/node-a/pods/1", FSType: "tmpfs"},
		{Device: "0:34", Root: "/", Target: "/lab/with space", FSType: "tmpfs"},
	}
	if diff := cmp.Diff(want, below(points, "/lab")); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestALineOfAnotherFormIsToldNotPassedOver(t *testing.T) {
	if points, err := parse("22 1 254:0 / /\n"); err == nil {
		t.Errorf("it was read as %v", points)
	}
}

func TestLoopDevicesThatLieOnOthersComeFirst(t *testing.T) {
	volume := Loop{Path: "/dev/loop0", Number: 0, Backing: "/lab/csi/volumes/a"}
	gone := Loop{Path: "/dev/loop3", Number: 3, Backing: "/lab/csi/volumes/b (deleted)"}
	kubelets := Loop{Path: "/dev/loop1", Number: 1, Backing: "/dev/loop0"}
	others := Loop{Path: "/dev/loop2", Number: 2, Backing: "/home/disk.img"}
	got, err := loopsBelow([]Loop{kubelets, others, volume, gone}, "/lab", func(device string) (int, error) {
		if device == kubelets.Path {
			return volume.Number, nil
		}
		return -1, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Loop{kubelets, gone, volume}, got); diff != "" {
		t.Errorf("loop devices (-want +got):\n%s", diff)
	}
}

// It runs on real mounts and loop devices, and so needs root, as the lab does.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := Free(dir); err != nil {
			t.Error(err)
		}
	})
	file, target := filepath.Join(dir, "disk"), filepath.Join(dir, "target")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	device := attach(t, file)
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(device, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	attach(t, target) // as a kubelet does
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	points, loops, err := Left(link)
	if err != nil || len(points) != 1 || len(loops) != 2 {
		t.Errorf("left are %v and %v (%v), want a mount and two loop devices", points, loops, err)
	}
	for range 2 {
		if err := Free(link); err != nil {
			t.Fatal(err)
		}
	}
	if points, loops, err := Left(dir); err != nil || len(points)+len(loops) > 0 {
		t.Errorf("left are %v and %v (%v)", points, loops, err)
	}
}

func attach(t *testing.T, file string) (device string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", file).CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}
