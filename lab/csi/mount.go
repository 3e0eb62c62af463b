package csi

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mountPoint is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mountPoint struct {
	Device string // major:minor of the mounted filesystem
	Root   string // what of that filesystem is mounted: "/loop3" for a bind mount of a device node
	Target string
	FSType string
}

func mountPoints() ([]mountPoint, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	defer f.Close()
	var mounts []mountPoint
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		mount, err := parseMount(lines.Text())
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return mounts, nil
}

// parseMount reads one line: ID PARENT MAJOR:MINOR ROOT TARGET OPTIONS [TAGS...] - FSTYPE SOURCE SUPEROPTIONS.
func parseMount(line string) (mountPoint, error) {
	fields := strings.Fields(line)
	dash := slices.Index(fields, "-")
	if len(fields) < 6 || dash < 0 || dash+1 >= len(fields) {
		return mountPoint{}, fmt.Errorf("list mounts: unknown line %q in /proc/self/mountinfo", line)
	}
	return mountPoint{
		Device: fields[2],
		Root:   unescape(fields[3]),
		Target: unescape(fields[4]),
		FSType: fields[dash+1],
	}, nil
}

// unescape undoes the kernel's \ooo for space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// mountedAt returns the uppermost mount on target; ok is false if nothing is mounted there.
func mountedAt(target string) (found mountPoint, ok bool, err error) {
	mounts, err := mountPoints()
	if err != nil {
		return mountPoint{}, false, err
	}
	for _, mount := range mounts {
		if mount.Target == target {
			found, ok = mount, true // later lines lie on top
		}
	}
	return found, ok, nil
}

// shows says whether the mount shows this loop device: its filesystem, or its device node.
func (m mountPoint) shows(device string) bool {
	number := strings.TrimPrefix(device, "/dev/loop")
	if m.Device == fmt.Sprintf("%d:%s", loopMajor, number) {
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
		_, ok, err := mountedAt(target)
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
