package mounts

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long Free tries. What a killed process still holds is let go of a moment after its end.
const patience = 10 * time.Second

// Left is what a directory holds of the kernel's: the mounts on it and below it, and the loop devices whose files are below
// it or that lie on such a device, in the order in which they can be taken away.
func Left(dir string) ([]Point, []Loop, error) {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil { // the kernel tells paths without links
		dir = resolved
	}
	points, err := Points()
	if err != nil {
		return nil, nil, err
	}
	all, err := Loops()
	if err != nil {
		return nil, nil, err
	}
	loops, err := loopsBelow(all, dir, lower)
	return below(points, dir), loops, err
}

// Free takes away all that is left of a directory, so that it can be removed. Mounts and loop devices hold each other:
// kubelets put loop devices on mounted device nodes of loop devices. A mount that is busy is taken out of sight at once and
// ends with its last user.
func Free(dir string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		points, loops, err := Left(dir)
		if err != nil || len(points)+len(loops) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("mounts or loop devices under %s keep coming back; somebody still uses them: see findmnt -R and losetup -l", dir)
		}
		for _, loop := range loops {
			if err := Detach(loop.Path); err != nil {
				return err
			}
		}
		for _, point := range points {
			if err := unmount(point.Target); err != nil {
				return err
			}
		}
	}
}

// unmount removes the uppermost mount on a target; one that went along with another is no error.
func unmount(target string) error {
	err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) {
		err = unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	return nil
}
