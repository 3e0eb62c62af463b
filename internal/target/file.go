package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fileMode is what KubeVirt expects of a disk image: its user or its group reads and writes it.
const fileMode = 0o660

// shrinkUnit is what a file's size is rounded down to where it is made smaller than asked, in bytes.
const shrinkUnit = 1 << 20

// FileOptions say which file to make.
type FileOptions struct {
	// Path is the file. Its directory exists. A file that is there from an earlier attempt is removed, unless Whole or Keep.
	Path string
	// SizeBytes is the disk's length, or Unknown.
	SizeBytes int64
	// AllowSmaller lets the disk shrink to what the filesystem can hold.
	AllowSmaller bool
	// Preallocation says which space is allocated.
	Preallocation Preallocation
	// Whole makes the file under another name in the same directory, and Commit gives it its own: whoever looks there
	// sees the old file or the whole new one. Its mode is what the umask leaves, and a sparse one may be longer than the
	// filesystem has room for, as files are on a person's machine.
	Whole bool
	// Part is that other name, where Close is to leave the unfinished file, so that it can be filled on later.
	Part string
	// Keep opens the unfinished file that an earlier attempt has left, if there is one. Its Identity tells whether it is
	// the one that is to be filled on.
	Keep bool
	// Moved is called whenever the storage has done something that was asked of it, from several goroutines. May be nil.
	Moved func()
}

// file is a disk image file. It is made anew, so it reads as zeros wherever nothing was written.
type file struct {
	f             *os.File
	path          string // in messages, and in the end
	temporary     string // where it is until Commit, if that isn't path
	stays         bool   // a temporary one is left there by Close
	back          writeback
	size          int64 // or Unknown
	preallocation Preallocation
	moved         moved
}

// OpenFile removes the file, sees whether the filesystem can hold another one, and makes it, empty and sparse.
func OpenFile(o FileOptions) (Target, error) {
	if o.Whole {
		return openWhole(o)
	}
	create := os.O_CREATE
	if !o.Keep {
		if err := os.Remove(o.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, classify(err, "remove "+o.Path+" of an earlier attempt")
		}
		create |= os.O_EXCL
	}
	size, err := fittingSize(o, o.Path)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.Path, os.O_RDWR|create|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		err = classify(err, "make "+o.Path)
		var e *Error
		if errors.As(err, &e) && e.Reason == Permission {
			e.Message = fmt.Sprintf("user %d may not make %s: the volume's directory must be writable for it, by fsGroup or by its mode", os.Getuid(), o.Path)
		}
		return nil, err
	}
	t := &file{f: f, path: o.Path, size: size, preallocation: o.Preallocation, back: writeback{f: f, path: o.Path}, moved: o.Moved}
	if err := f.Chmod(fileMode); err != nil { // whatever the umask is
		return nil, errors.Join(classify(err, "set the mode of "+o.Path), t.Close())
	}
	return t, nil
}

// openWhole makes the file under a name that nobody else has, or under the one that is asked for.
func openWhole(o FileOptions) (Target, error) {
	if o.Preallocation != Sparse {
		if _, err := fittingSize(o, o.Part); err != nil {
			return nil, err
		}
	}
	create := createTemporary
	if o.Part != "" {
		create = func(string) (*os.File, error) { return openPart(o) }
	}
	f, err := create(o.Path)
	if err != nil {
		return nil, classify(err, "make "+o.Path)
	}
	return &file{
		f: f, path: o.Path, temporary: f.Name(), stays: o.Part != "", size: o.SizeBytes, preallocation: o.Preallocation,
		back: writeback{f: f, path: o.Path}, moved: o.Moved,
	}, nil
}

// openPart opens the unfinished file, which only one process may fill at a time.
func openPart(o FileOptions) (*os.File, error) {
	f, err := os.OpenFile(o.Part, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o666)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &Error{Reason: InUse, Err: err, Message: fmt.Sprintf("%s is being filled by another process: wait for its end", o.Part)}
	}
	if err == nil && !o.Keep {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(classify(err, "open "+o.Part), f.Close())
	}
	return f, nil
}

// maxBase is how much of a file's name the name of its temporary file repeats, in bytes, so that it doesn't get too long.
const maxBase = 200

// createTemporary makes a hidden file beside path. os.CreateTemp would make one that only its owner reads.
func createTemporary(path string) (*os.File, error) {
	base := filepath.Base(path)
	for {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%08x.part", base[:min(len(base), maxBase)], rand.Uint32()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// fittingSize is the size of the file to make. A file from an earlier attempt, which is kept or emptied, gives its room.
func fittingSize(o FileOptions, earlier string) (int64, error) {
	directory := filepath.Dir(o.Path)
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		return 0, classify(err, "look at the filesystem of "+directory)
	}
	if s.Blocks == 0 {
		return o.SizeBytes, nil // it doesn't tell, as some network filesystems don't
	}
	free := int64(min(s.Bavail, 1<<61/uint64(s.Bsize))) * s.Bsize
	if stat := (unix.Stat_t{}); unix.Lstat(earlier, &stat) == nil {
		free += min(stat.Blocks*512, 1<<61)
	}
	if o.SizeBytes <= free {
		return o.SizeBytes, nil
	}
	if smaller := free / shrinkUnit * shrinkUnit; o.AllowSmaller && smaller > 0 {
		return smaller, nil
	}
	return 0, &Error{Reason: FilesystemTooSmall, Message: fmt.Sprintf(
		"the disk needs a file of %d bytes, and the volume's filesystem has room for %d: ask for a larger volume, which allows for the filesystem's own needs", o.SizeBytes, free)}
}

// Size implements Target. A file of unknown length takes whatever comes.
func (t *file) Size() int64 {
	if t.size == Unknown {
		return math.MaxInt64
	}
	return t.size
}

// Clear implements Target.
func (t *file) Clear(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.f.Truncate(0); err != nil { // a second Clear must forget what was written
		return classify(err, "empty "+t.path)
	}
	if t.size == Unknown {
		return nil
	}
	if err := t.Resize(t.size); err != nil {
		return err
	}
	if t.preallocation == Sparse || t.size == 0 {
		return nil
	}
	err := error(unix.EOPNOTSUPP)
	for offset := int64(0); t.preallocation == Falloc && offset < t.size; offset += clearStep {
		if err = ctx.Err(); err != nil {
			return err
		}
		err = retryInterrupted(func() error { return unix.Fallocate(int(t.f.Fd()), 0, offset, min(clearStep, t.size-offset)) })
		if err != nil {
			break
		}
		t.moved.tell()
	}
	if unsupported(err) { // as on NFS before version 4.2
		err = writeZeros(ctx, t, 0, t.size)
	}
	if ctxErr := ctx.Err(); err != nil && ctxErr != nil {
		return ctxErr
	}
	return classify(err, fmt.Sprintf("allocate %d bytes for %s", t.size, t.path))
}

// Resize implements Resizer.
func (t *file) Resize(size int64) error {
	return classify(t.f.Truncate(size), fmt.Sprintf("make %s %d bytes long", t.path, size))
}

// WriteAt implements Target.
func (t *file) WriteAt(p []byte, offset int64) (int, error) {
	n, err := t.f.WriteAt(p, offset)
	if err != nil {
		return n, classify(err, fmt.Sprintf("write %d bytes at offset %d of %s", len(p), offset, t.path))
	}
	defer t.moved.tell()
	return n, t.back.wrote(offset, n)
}

// ReadAt implements Target.
func (t *file) ReadAt(p []byte, offset int64) (int, error) {
	defer t.moved.tell()
	return readAt(t.f, p, offset, t.path)
}

// Sync implements Target.
func (t *file) Sync() error {
	defer t.moved.tell()
	return t.back.sync()
}

// DropCache implements Cached.
func (t *file) DropCache() error { return dropCache(t.f, t.path) }

// Hole implements Holed.
func (t *file) Hole(offset, n int64) bool {
	data, err := unix.Seek(int(t.f.Fd()), offset, unix.SEEK_DATA) // nobody uses the file's position
	return errors.Is(err, unix.ENXIO) || err == nil && data >= offset+n
}

// Identity implements Target: a file that has another length than the disk wasn't cleared.
func (t *file) Identity() string {
	var s unix.Statx_t
	if err := unix.Statx(int(t.f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME|unix.STATX_SIZE, &s); err != nil || t.size == Unknown || int64(s.Size) != t.size {
		return ""
	}
	return fmt.Sprintf("file %d of %d.%09d, %d bytes", s.Ino, s.Btime.Sec, s.Btime.Nsec, s.Size)
}

// Commit implements Target.
func (t *file) Commit() error {
	if err := t.Sync(); err != nil {
		return err
	}
	if t.temporary != "" {
		if err := os.Rename(t.temporary, t.path); err != nil {
			return classify(err, "give "+t.path+" its name")
		}
		t.temporary = ""
	}
	directory, err := os.Open(filepath.Dir(t.path))
	if err != nil {
		return classify(err, "open the directory of "+t.path)
	}
	defer directory.Close() // only read
	return classify(directory.Sync(), "bring the directory of "+t.path+" to stable storage")
}

// Close implements Target. A file that hasn't got its name goes, unless it was to stay.
func (t *file) Close() error {
	err := classify(t.f.Close(), "close "+t.path)
	if t.temporary == "" || t.stays {
		return err
	}
	return errors.Join(err, classify(os.Remove(t.temporary), "remove the unfinished "+t.temporary))
}

// retryInterrupted calls f again for as long as a signal interrupts it.
func retryInterrupted(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
