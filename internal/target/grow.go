package target

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Grow makes a disk image file that is there at least size bytes long, and returns how long it is. The new bytes read as zeros. The file is
// never made shorter, and one that somebody has locked, as QEMU locks the images of running machines, is left as it is.
func Grow(path string, size int64, p Preallocation) (now int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, classify(err, "open "+path+" to grow it")
	}
	defer func() { err = errors.Join(err, classify(f.Close(), "close "+path)) }()
	info, err := f.Stat()
	if err != nil {
		return 0, classify(err, "look at "+path)
	}
	switch {
	case !info.Mode().IsRegular():
		return 0, &Error{Reason: Missing, Message: fmt.Sprintf("%s is not a file: it can't be grown", path)}
	case info.Size() >= size:
		return info.Size(), nil
	}
	if err := unlocked(f, path); err != nil {
		return 0, err
	}
	if _, err := fittingSize(FileOptions{Path: path, SizeBytes: size}, path); err != nil {
		return 0, err
	}
	if err := lengthen(f, path, info.Size(), size, p); err != nil {
		return 0, err
	}
	return size, classify(f.Sync(), "bring "+path+" to stable storage")
}

// lengthen adds bytes at the end of a file, with their space where that is asked for and can be had.
func lengthen(f *os.File, path string, from, to int64, p Preallocation) error {
	if p != Sparse {
		err := retryInterrupted(func() error { return unix.Fallocate(int(f.Fd()), 0, from, to-from) })
		if !unsupported(err) { // as on NFS before version 4.2
			return classify(err, fmt.Sprintf("allocate %d bytes more for %s", to-from, path))
		}
	}
	return classify(f.Truncate(to), fmt.Sprintf("make %s %d bytes long", path, to))
}

// unlocked says whether nobody holds a lock on a file. Locks of open file descriptions are asked for, which QEMU takes; they are seen
// from every process of the node, and on NFS of every node.
func unlocked(f *os.File, path string) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK):
		return nil // a filesystem without locks; whoever started us has seen that no pod uses the volume
	case err != nil:
		return classify(err, "ask who has locked "+path)
	case lock.Type != unix.F_UNLCK:
		return &Error{Reason: InUse, Message: fmt.Sprintf("%s is in use by a virtual machine: it is grown once that has stopped", path)}
	}
	return nil
}
