package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// clearStep is how many bytes are made zero, or allocated, by one call of the kernel, so that it can be interrupted between two.
const clearStep = 1 << 30

// zeroWrite is the length in bytes of one write of zeros.
const zeroWrite = 1 << 20

// BlockOptions say which device to fill.
type BlockOptions struct {
	// Path is the device.
	Path string
	// SizeBytes is the disk's length; the device may be longer, and what lies behind the disk stays as it is. Unknown is
	// the device's own length.
	SizeBytes int64
	// Preallocation says which space of a thin device is allocated. Falloc relies on the device to keep what it was told
	// to make zero; Full writes.
	Preallocation Preallocation
	// Zeroed says that the device is known to read as zeros. Nothing is made zero then, except for a preallocation.
	Zeroed bool
	// Exclusive refuses a device that is in use on this machine: mounted, or a part of another device.
	Exclusive bool
	// Moved is called whenever the storage has done something that was asked of it, from several goroutines. May be nil.
	Moved func()
}

// block is a block device. Whatever it reads as before, it is never presumed to be zero, unless whoever opened it knows.
type block struct {
	f             *os.File
	path          string
	size          int64
	sector        int64 // the device's, in bytes: what it can punch
	back          writeback
	preallocation Preallocation
	zeroed        bool
	moved         moved
}

// OpenBlock opens the device and compares its size. Nothing is written yet.
func OpenBlock(o BlockOptions) (Target, error) {
	flags := os.O_RDWR
	if o.Exclusive {
		flags |= os.O_EXCL // without O_CREATE this is what it means for a device (open(2))
	}
	f, err := os.OpenFile(o.Path, flags, 0)
	if err != nil {
		return nil, openError(err, o.Path)
	}
	t := &block{f: f, path: o.Path, size: o.SizeBytes, back: writeback{f: f, path: o.Path}, preallocation: o.Preallocation, zeroed: o.Zeroed, moved: o.Moved}
	if err := t.check(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func openError(err error, path string) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Error{Reason: Permission, Err: err, Message: fmt.Sprintf(
			"user %d may not open the block device %s: set device_ownership_from_security_context to true in the node's container runtime (containerd or CRI-O), so that a pod's user owns its devices", os.Getuid(), path)}
	}
	if errors.Is(err, unix.EBUSY) {
		return &Error{Reason: InUse, Err: err, Message: fmt.Sprintf("the block device %s is in use: unmount it, or take it out of what it is a part of ('lsblk %s' shows that)", path, path)}
	}
	return classify(err, "open the block device "+path)
}

func (t *block) check() error {
	info, err := t.f.Stat()
	if err != nil {
		return classify(err, "look at "+t.path)
	}
	if info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0 {
		return &Error{Reason: NotADevice, Message: fmt.Sprintf("%s is not a block device", t.path)}
	}
	size, err := unix.IoctlGetInt(int(t.f.Fd()), unix.BLKGETSIZE64) // 64 bits wide, as int is on this kernel
	if err != nil {
		return classify(err, "ask for the size of "+t.path)
	}
	sector, err := unix.IoctlGetInt(int(t.f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return classify(err, "ask for the sector size of "+t.path)
	}
	t.sector = int64(sector)
	if t.size == Unknown {
		t.size = int64(size)
	}
	if int64(size) < t.size {
		return &Error{Reason: DeviceTooSmall, Message: fmt.Sprintf("the disk needs %d bytes, and the volume's device %s has %d: the volume was made smaller than it was asked for", t.size, t.path, size)}
	}
	return nil
}

// Size implements Target.
func (t *block) Size() int64 { return t.size }

// Clear implements Target. It takes the first of these that the device allows, each of which gives zeros or an error:
// punching a hole, which also gives the space of a thin device back; having the kernel write zeros; writing them here.
func (t *block) Clear(ctx context.Context) error {
	writing := func(offset, n int64) error { return writeZeros(ctx, t, offset, n) }
	methods := []func(offset, n int64) error{
		t.fallocate(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE),
		t.fallocate(unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE),
		writing,
	}
	switch {
	case t.preallocation == Full:
		methods = methods[2:]
	case t.preallocation == Falloc:
		methods = methods[1:]
	case t.zeroed:
		t.zeroed = false // a second Clear must forget what was written
		return ctx.Err()
	}
	return t.clear(ctx, methods)
}

// clear makes zeros by the first method that works, and by the next ones from where it stops working. The kernel makes
// nothing less than a sector zero, so what the disk has of its last one is written.
func (t *block) clear(ctx context.Context, methods []func(offset, n int64) error) error {
	end := t.size - t.size%t.sector
	for offset := int64(0); offset < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(clearStep, end-offset)
		err := methods[0](offset, n)
		if unsupported(err) && len(methods) > 1 {
			methods = methods[1:]
			continue
		}
		if ctxErr := ctx.Err(); err != nil && ctxErr != nil {
			return ctxErr
		}
		if err != nil {
			return classify(err, fmt.Sprintf("make %d bytes zero at offset %d of %s", n, offset, t.path))
		}
		offset += n
		t.moved.tell()
	}
	return writeZeros(ctx, t, end, t.size-end)
}

// unsupported reports whether a way of making zeros isn't there for the device or this part of it: the kernel's word for
// that is one of these.
func unsupported(err error) bool {
	for _, e := range []error{unix.EOPNOTSUPP, unix.ENOSYS, unix.ENODEV, unix.EINVAL, unix.ENOTTY, unix.EPERM, unix.EREMOTEIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (t *block) fallocate(mode uint32) func(offset, n int64) error {
	return func(offset, n int64) error {
		return retryInterrupted(func() error { return unix.Fallocate(int(t.f.Fd()), mode, offset, n) })
	}
}

// writeZeros writes n zeros, where nothing else makes them. It stops when ctx is done.
func writeZeros(ctx context.Context, w io.WriterAt, offset, n int64) error {
	zeros := make([]byte, min(n, zeroWrite))
	for end := offset + n; offset < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := min(end-offset, int64(len(zeros)))
		if _, err := w.WriteAt(zeros[:step], offset); err != nil {
			return err
		}
		offset += step
	}
	return nil
}

// WriteAt implements Target.
func (t *block) WriteAt(p []byte, offset int64) (int, error) {
	n, err := t.f.WriteAt(p, offset)
	if err != nil {
		return n, classify(err, fmt.Sprintf("write %d bytes at offset %d of %s", len(p), offset, t.path))
	}
	defer t.moved.tell()
	return n, t.back.wrote(offset, n)
}

// ReadAt implements Target.
func (t *block) ReadAt(p []byte, offset int64) (int, error) {
	defer t.moved.tell()
	return readAt(t.f, p, offset, t.path)
}

// Sync implements Target.
func (t *block) Sync() error {
	defer t.moved.tell()
	return t.back.sync()
}

// DropCache implements Cached.
func (t *block) DropCache() error { return dropCache(t.f, t.path) }

// Identity implements Target. It is what the kernel knows of the device besides its name, which another one may have had
// before; the name only where there is nothing else.
func (t *block) Identity() string {
	info, err := t.f.Stat()
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	sys := fmt.Sprintf("/sys/dev/block/%d:%d/", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
	for _, name := range []string{"dm/uuid", "wwid", "device/wwid", "loop/backing_file"} {
		b, err := os.ReadFile(sys + name)
		if id := strings.TrimSpace(string(b)); err == nil && id != "" {
			return fmt.Sprintf("%s, %d bytes", id, t.size)
		}
	}
	return fmt.Sprintf("%s, %d bytes", t.path, t.size)
}

// Commit implements Target.
func (t *block) Commit() error { return t.Sync() }

// Close implements Target.
func (t *block) Close() error { return classify(t.f.Close(), "close "+t.path) }

// readAt reads a file or a device.
func readAt(f *os.File, p []byte, offset int64, path string) (int, error) {
	n, err := f.ReadAt(p, offset)
	if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
		return n, err
	}
	return n, classify(err, fmt.Sprintf("read %d bytes at offset %d of %s", len(p), offset, path))
}

// dropCache has the kernel forget what it remembers of a file and has on stable storage.
func dropCache(f *os.File, path string) error {
	return classify(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), "have the kernel forget what it remembers of "+path)
}
