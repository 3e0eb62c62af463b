package mounts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LoopMajor is the major number of loop devices (Documentation/admin-guide/devices.txt).
const LoopMajor = 7

// deletedSuffix is what the kernel appends to the path of a backing file that has been unlinked.
const deletedSuffix = " (deleted)"

// Loop is one loop device that is in use.
type Loop struct {
	Path    string // for example /dev/loop3
	Number  int
	Backing string // the backing file as the kernel knows it
}

// Loops lists the loop devices that have a backing file. It asks sysfs and opens none of them: an open device can't be
// detached.
func Loops() ([]Loop, error) {
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, fmt.Errorf("list loop devices: %w", err)
	}
	var loops []Loop
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			continue // it was detached between the listing and the read
		}
		device := filepath.Base(filepath.Dir(filepath.Dir(name)))
		number, err := strconv.Atoi(strings.TrimPrefix(device, "loop"))
		if err != nil {
			return nil, fmt.Errorf("read the number of loop device %q: %w", device, err)
		}
		loops = append(loops, Loop{Path: "/dev/" + device, Number: number, Backing: strings.TrimSuffix(string(raw), "\n")})
	}
	return loops, nil
}

// Detach frees the device. A device that is still open goes when its last user closes it; a device that is free already
// is no error.
func Detach(device string) error {
	return OnLoop(device, "detach", func(fd int) error {
		_, err := unix.IoctlRetInt(fd, unix.LOOP_CLR_FD)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		return err
	})
}

// OnLoop does something with an open device; what is said of it in an error.
func OnLoop(device, what string, do func(fd int) error) error {
	loop, err := os.OpenFile(device, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("%s loop device: %w", what, err)
	}
	defer loop.Close()
	if err := do(int(loop.Fd())); err != nil {
		return fmt.Errorf("%s loop device %s: %w", what, device, err)
	}
	return nil
}

// lower returns the number of the loop device that lies below this one, or -1. The kubelet puts a loop device of its own on
// every block volume, as a lock.
func lower(device string) (int, error) {
	number := -1
	err := OnLoop(device, "inspect", func(fd int) error {
		info, err := unix.IoctlLoopGetStatus64(fd)
		if err == nil && unix.Major(info.Rdevice) == LoopMajor {
			number = int(unix.Minor(info.Rdevice))
		}
		return err
	})
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENOENT) { // it is gone, or out of this /dev's sight
		return -1, nil
	}
	return number, err
}

// loopsBelow picks the loop devices whose backing files are below a directory, and those that lie on top of these, the
// uppermost first. It asks on which loop device one lies; -1 means on none.
func loopsBelow(all []Loop, dir string, on func(device string) (int, error)) ([]Loop, error) {
	var found []Loop
	for _, loop := range all {
		if strings.HasPrefix(strings.TrimSuffix(loop.Backing, deletedSuffix), dir+"/") {
			found = append(found, loop)
		}
	}
	for i := 0; i < len(found); i++ { // found grows while it is walked
		for _, loop := range all {
			if slices.Contains(found, loop) {
				continue
			}
			number, err := on(loop.Path)
			if err != nil {
				return nil, err
			}
			if number == found[i].Number {
				found = append(found, loop)
			}
		}
	}
	slices.Reverse(found)
	return found, nil
}
