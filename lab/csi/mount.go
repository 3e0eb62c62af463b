package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vmdisk.io/vmdisk/lab/mounts"
)

// shows says whether the mount shows this loop device: its filesystem, or its device node.
func shows(m mounts.Point, device string) bool {
	number := strings.TrimPrefix(device, "/dev/loop")
	if m.Device == fmt.Sprintf("%d:%s", mounts.LoopMajor, number) {
		return true
	}
	return (m.FSType == "devtmpfs" || m.FSType == "tmpfs") && m.Root == "/loop"+number
}

// bindMount shows source at target.
func bindMount(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind-mount %s to %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", target, err), unmountAll(target))
	}
	return nil
}

// unmountAll removes every mount on target; nothing mounted, or no such path, is no error.
func unmountAll(target string) error {
	for {
		_, ok, err := mounts.At(target)
		if err != nil || !ok {
			return err
		}
		if err := unmount(target); err != nil {
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
}

// busyGrace is for how long a mount may be busy before we believe that somebody uses it.
const busyGrace = time.Second

// unmount removes one mount. For a moment a mount is busy that nobody uses: mkfs looks at every mount of the machine to see
// whether its device is mounted, and a program that is just being started has a copy of our files until its exec.
func unmount(target string) error {
	for deadline := time.Now().Add(busyGrace); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
	}
}

// removeTarget removes the file or the empty directory on which a volume was mounted. It never removes contents.
func removeTarget(target string) error {
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the mount point: %w", err)
	}
	return nil
}

// command runs a program that is expected to say what is wrong on its output.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("run %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
