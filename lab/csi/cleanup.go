package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Cleanup removes what a driver process that was killed has left in the kernel: every mount of its loop devices, the
// loop devices that the kubelets put on top of them, and the loop devices themselves. The volumes stay, in use by
// nobody. It works on a state directory that is damaged, or gone. It refuses to pull the volumes from under a driver
// process that still runs. Processes that hold a device open (a killed kubelet's containers, say) should be stopped
// first; their devices go when the last of them ends.
func Cleanup(ctx context.Context, stateDir string) error {
	if _, err := os.Stat(stateDir); errors.Is(err, fs.ErrNotExist) {
		return cleanKernel(realPath(stateDir))
	}
	lock, err := lockStateDir(ctx, stateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := cleanKernel(realPath(stateDir)); err != nil {
		return err
	}
	return forgetUse(stateDir)
}

// forgetUse makes the state file say that no volume is attached or staged anywhere.
func forgetUse(stateDir string) error {
	s, err := loadState(stateDir)
	if err != nil {
		return err
	}
	if len(s.Volumes) == 0 {
		return nil
	}
	for _, v := range s.Volumes {
		v.Published, v.Staged = nil, nil
	}
	return s.save(stateDir)
}

func cleanKernel(stateDir string) error {
	loops, err := loopsUnder(filepath.Join(stateDir, volumesDir))
	if err != nil {
		return err
	}
	var problems []error
	for _, loop := range loops {
		problems = append(problems, unmountLoop(loop), detachLoop(loop.Path))
	}
	return errors.Join(problems...)
}

// loopsUnder lists the loop devices whose backing files are in the directory, and those that lie on top of these, the
// uppermost first.
func loopsUnder(dir string) ([]loopDevice, error) {
	all, err := attachedLoops()
	if err != nil {
		return nil, err
	}
	var found []loopDevice
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
			below, err := backingDevice(loop.Path)
			if err != nil {
				return nil, err
			}
			if below == found[i].Number {
				found = append(found, loop)
			}
		}
	}
	slices.Reverse(found)
	return found, nil
}

// unmountLoop removes every mount that shows the device. A mount that is busy is taken out of sight at once and ends
// with its last user.
func unmountLoop(loop loopDevice) error {
	mounts, err := mountPoints()
	if err != nil {
		return err
	}
	var problems []error
	for _, mount := range slices.Backward(mounts) {
		if !mount.shows(loop.Path) {
			continue
		}
		err := unix.Unmount(mount.Target, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(mount.Target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: it is unmounted already
			problems = append(problems, fmt.Errorf("unmount %s of %s: %w", mount.Target, loop.Path, err))
		}
	}
	return errors.Join(problems...)
}
