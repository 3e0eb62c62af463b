package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mountsBelow lists the mount points under a directory (and the directory itself), deepest and latest first, from the
// text of /proc/self/mountinfo, proc(5).
func mountsBelow(mountinfo, dir string) []string {
	var points []string
	for _, line := range strings.Split(mountinfo, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	for i, j := 0, len(points)-1; i < j; i, j = i+1, j-1 {
		points[i], points[j] = points[j], points[i]
	}
	sort.SliceStable(points, func(i, j int) bool { return strings.Count(points[i], "/") > strings.Count(points[j], "/") })
	return points
}

// unescape undoes the kernel's \ooo for space, tab, newline and backslash.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unmountAll unmounts everything under the lab's directory and detaches the loop devices whose files are there. The
// two hold each other: kubelets put loop devices onto mounted device nodes of loop devices. What a killed process still
// holds is let go of a moment after its end, so this tries for a while.
func unmountAll() error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err := detachLoops(); err != nil {
			return err
		}
		mountinfo, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return fmt.Errorf("list mounts: %w", err)
		}
		points := mountsBelow(string(mountinfo), Dir())
		loops, err := labLoops()
		if err != nil {
			return err
		}
		if len(points) == 0 && len(loops) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("mounts or loop devices under %s keep coming back; somebody still uses them: see findmnt -R and losetup -l", Dir())
		}
		for _, point := range points {
			err := unix.Unmount(point, 0)
			if errors.Is(err, unix.EBUSY) {
				err = unix.Unmount(point, unix.MNT_DETACH)
			}
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // another unmount took it along
				return fmt.Errorf("unmount %s: %w", point, err)
			}
		}
	}
}

// loop is one loop device in use.
type loop struct {
	device string
	number uint64 // of the device itself
	on     uint64 // device number of the block device that it lies on; 0 if it lies on a file
	file   string
}

// detachLoops detaches the lab's loop devices, the ones that lie on others first. A device that is still open goes by
// itself when it is closed.
func detachLoops() error {
	loops, err := labLoops()
	if err != nil {
		return err
	}
	for i := len(loops) - 1; i >= 0; i-- {
		f, err := os.Open(loops[i].device)
		if err != nil {
			return fmt.Errorf("open %s to detach it: %w", loops[i].device, err)
		}
		err = unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0)
		if errors.Is(err, unix.ENXIO) { // gone meanwhile
			err = nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("detach %s from %s: %w", loops[i].device, loops[i].file, err)
		}
	}
	return nil
}

// labLoops lists the loop devices whose files are under the lab's directory, each followed somewhere by the ones that
// lie on it.
func labLoops() ([]loop, error) {
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var all []loop
	for _, path := range paths {
		device := "/dev/" + strings.Split(path, "/")[3]
		l, err := lookAtLoop(device)
		if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) { // detached meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", device, err)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			continue // detached meanwhile
		}
		l.file = strings.TrimSuffix(strings.TrimSpace(string(file)), " (deleted)")
		all = append(all, l)
	}
	return belonging(all, Dir()), nil
}

func lookAtLoop(device string) (loop, error) {
	f, err := os.Open(device)
	if err != nil {
		return loop{}, err
	}
	defer f.Close()
	status, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return loop{}, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return loop{}, err
	}
	return loop{device: device, number: stat.Rdev, on: status.Rdevice}, nil
}

// belonging picks the loop devices that lie on files under a directory, and those that lie on one picked before.
func belonging(all []loop, dir string) []loop {
	var picked []loop
	mine := map[uint64]bool{}
	for again := true; again; {
		again = false
		for _, l := range all {
			if !mine[l.number] && (strings.HasPrefix(l.file, dir+"/") || (l.on != 0 && mine[l.on])) {
				mine[l.number], again = true, true
				picked = append(picked, l)
			}
		}
	}
	return picked
}
