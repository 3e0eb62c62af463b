package csi

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"vmdisk.io/vmdisk/lab/mounts"
)

// Loop devices are found by their backing file in sysfs, never from memory: what the kernel says stays true across a
// crash of the driver.

const attachAttempts = 50

// loopOf returns the loop device whose backing file is file; ok is false if there is none.
func loopOf(file string) (device string, ok bool, err error) {
	loops, err := mounts.Loops()
	if err != nil {
		return "", false, err
	}
	for _, loop := range loops {
		if loop.Backing == file {
			return loop.Path, true, nil
		}
	}
	return "", false, nil
}

// attachLoop puts a loop device in front of file, or returns the one that is there.
func attachLoop(file string) (string, error) {
	device, ok, err := loopOf(file)
	if err != nil {
		return "", err
	}
	if ok {
		if ok, err = keepLoop(device, file); err != nil || ok {
			return device, err
		}
	}
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("open the volume's backing file: %w", err)
	}
	defer backing.Close() // the kernel holds its own reference
	for range attachAttempts {
		device, err := freeLoop()
		if err != nil {
			return "", err
		}
		err = configureLoop(device, backing)
		if errors.Is(err, unix.EBUSY) {
			continue // somebody else took it
		}
		if err != nil {
			return "", fmt.Errorf("attach %s to %s: %w", device, file, err)
		}
		return device, nil
	}
	return "", fmt.Errorf("attach a loop device to %s: every free device was taken by somebody else, %d times in a row", file, attachAttempts)
}

// keepLoop has the device stay in front of file. One that was detached while somebody had it open would go with its last
// user, under whoever relies on it by then. It is false if the device is gone already.
func keepLoop(device, file string) (kept bool, err error) {
	err = mounts.OnLoop(device, "keep", func(fd int) error {
		info, err := unix.IoctlLoopGetStatus64(fd)
		if err == nil && info.Flags&unix.LO_FLAGS_AUTOCLEAR != 0 {
			info.Flags &^= unix.LO_FLAGS_AUTOCLEAR
			err = unix.IoctlLoopSetStatus64(fd, info)
		}
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, err
	}
	now, ok, err := loopOf(file)
	return ok && now == device, err
}

// freeLoop returns the path of a loop device that nobody used a moment ago; the kernel makes one if need be.
func freeLoop() (string, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("ask for a free loop device: %w", err)
	}
	defer control.Close()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", fmt.Errorf("ask for a free loop device: %w", err)
	}
	device := fmt.Sprintf("/dev/loop%d", number)
	// A /dev that is not a devtmpfs has no node for a device that the kernel has just made.
	err = unix.Mknod(device, unix.S_IFBLK|0o660, int(unix.Mkdev(mounts.LoopMajor, uint32(number))))
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return "", fmt.Errorf("make the device node %s: %w", device, err)
	}
	return device, nil
}

func configureLoop(device string, backing *os.File) error {
	loop, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer loop.Close()
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], backing.Name())
	return unix.IoctlLoopConfigure(int(loop.Fd()), &config)
}

// refreshLoop makes the device as large as its backing file has become.
func refreshLoop(device string) error {
	return mounts.OnLoop(device, "resize", func(fd int) error {
		_, err := unix.IoctlRetInt(fd, unix.LOOP_SET_CAPACITY)
		return err
	})
}

// sizeOf returns the bytes of a block device or file.
func sizeOf(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("measure: %w", err)
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", path, err)
	}
	return size, nil
}
