package csi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"vmdisk.io/vmdisk/lab/mounts"
)

// Offsets in an ext4 superblock and its own place (Documentation/filesystems/ext4/super.rst), in bytes.
const (
	superblockOffset = 1024
	blocksLowOffset  = 0x4
	blockSizeOffset  = 0x18 // a block has 1024 << this many bytes
	magicOffset      = 0x38
	blocksHighOffset = 0x150
	superblockBytes  = 1024
	ext4Magic        = 0xEF53
)

// ext4Bytes returns how large the ext4 filesystem on the device is; ok is false if there is none.
func ext4Bytes(device string) (bytes int64, ok bool, err error) {
	f, err := os.Open(device)
	if err != nil {
		return 0, false, fmt.Errorf("look for a filesystem: %w", err)
	}
	defer f.Close()
	super := make([]byte, superblockBytes)
	if _, err := f.ReadAt(super, superblockOffset); err != nil {
		return 0, false, fmt.Errorf("look for a filesystem on %s: %w", device, err)
	}
	if binary.LittleEndian.Uint16(super[magicOffset:]) != ext4Magic {
		return 0, false, nil
	}
	blocks := int64(binary.LittleEndian.Uint32(super[blocksLowOffset:])) |
		int64(binary.LittleEndian.Uint32(super[blocksHighOffset:]))<<32
	return blocks << (10 + binary.LittleEndian.Uint32(super[blockSizeOffset:])), true, nil
}

// fills says whether the filesystem on the device, if there is one, is as large as the device.
func fills(device string) (full, exists bool, err error) {
	size, err := sizeOf(device)
	if err != nil {
		return false, false, err
	}
	bytes, ok, err := ext4Bytes(device)
	return bytes+sizeUnit > size, ok, err
}

// prepareExt4 makes an unmounted device ready to be mounted: with a filesystem that fills it. Only ext4 counts as one:
// whatever else a fresh volume holds, the pattern of a dirty one included, is nobody's data.
func prepareExt4(device string) error {
	full, exists, err := fills(device)
	if err != nil {
		return err
	}
	if !exists {
		return makeExt4(device)
	}
	if full {
		return nil
	}
	// The volume was grown while nobody had it mounted. resize2fs wants a check first.
	var exit *exec.ExitError
	err = command("e2fsck", "-f", "-p", device)
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // e2fsck(8): 1 is "errors corrected"
		return err
	}
	return command("resize2fs", device)
}

// A filesystem below smallBytes gets few inodes and a small journal: mkfs.ext4's own choices cost it 6 to 17 % of its
// size, and the small volumes of tests are to stand for those of real disks, where they cost less than 3 %.
const (
	smallBytes     = 4 * gib
	bytesPerInode  = mib
	leastJournal   = 1 // MiB; what a filesystem below blocks4kFrom needs at least, with blocks of 1 KiB
	leastJournal4k = 4 // MiB; what a filesystem with blocks of 4 KiB needs at least
	blocks4kFrom   = 512 * mib
)

// makeExt4 makes a filesystem without blocks reserved for root, as real drivers do. Its tables stay unwritten, so that
// the backing file's allocated blocks are those of the data.
func makeExt4(device string) error {
	size, err := sizeOf(device)
	if err != nil {
		return err
	}
	arguments := []string{"-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1"}
	if size < smallBytes {
		journal := leastJournal
		if size >= blocks4kFrom {
			journal = leastJournal4k
		}
		arguments = append(arguments, "-i", strconv.FormatInt(bytesPerInode, 10), "-J", fmt.Sprintf("size=%d", journal))
	}
	return command("mkfs.ext4", append(arguments, device)...)
}

// growMounted makes the mounted filesystem fill its device. The kernel grows a mounted ext4 only for a caller with
// CAP_SYS_RESOURCE, which root in some sandboxes does not have. There, a filesystem that no pod uses is taken away for
// a moment; one in use is grown by the next NodeStageVolume.
func growMounted(device string, options []string) error {
	if full, _, err := fills(device); err != nil || full {
		return err
	}
	if canGrowOnline() {
		return command("resize2fs", device)
	}
	points, err := mounts.Points()
	if err != nil {
		return err
	}
	var shown []mounts.Point
	for _, mount := range points {
		if shows(mount, device) {
			shown = append(shown, mount)
		}
	}
	if len(shown) != 1 {
		return inUse(device)
	}
	staging := shown[0].Target
	if err := unmount(staging); errors.Is(err, unix.EBUSY) {
		return inUse(device)
	} else if err != nil {
		return fmt.Errorf("unmount %s to grow its filesystem: %w", staging, err)
	}
	return errors.Join(prepareExt4(device), mountExt4(device, staging, options))
}

func inUse(device string) error {
	return status.Errorf(codes.FailedPrecondition, "grow the filesystem on %s: a pod uses it, and this machine's root lacks CAP_SYS_RESOURCE, "+
		"without which the kernel grows no mounted ext4: it grows when its pod is started anew", device)
}

// canGrowOnline says whether this process has CAP_SYS_RESOURCE.
func canGrowOnline() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// mountExt4 mounts the device with the StorageClass's mount options.
func mountExt4(device, target string, options []string) error {
	// noinit_itable keeps the kernel from writing the inode tables behind the data's back.
	arguments := []string{"-t", "ext4", "-o", "noinit_itable"}
	for _, option := range options {
		arguments = append(arguments, "-o", option)
	}
	return command("mount", append(arguments, device, target)...)
}
