package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	// Path is the file. Its directory exists. A file that is there from an earlier attempt is removed.
	Path string
	// SizeBytes is the disk's length.
	SizeBytes int64
	// AllowSmaller lets the disk shrink to what the filesystem can hold.
	AllowSmaller bool
	// Preallocate has space allocated for every byte.
	Preallocate bool
}

// file is a disk image file. It is made anew, so it reads as zeros wherever nothing was written.
type file struct {
	f           *os.File
	path        string
	size        int64
	preallocate bool
}

// OpenFile removes the file, sees whether the filesystem can hold another one, and makes it, empty and sparse.
func OpenFile(o FileOptions) (Target, error) {
	if err := os.Remove(o.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, classify(err, "remove "+o.Path+" of an earlier attempt")
	}
	size, err := fittingSize(o)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		err = classify(err, "make "+o.Path)
		var e *Error
		if errors.As(err, &e) && e.Reason == Permission {
			e.Message = fmt.Sprintf("user %d may not make %s: the volume's directory must be writable for it, by fsGroup or by its mode", os.Getuid(), o.Path)
		}
		return nil, err
	}
	t := &file{f: f, path: o.Path, size: size, preallocate: o.Preallocate}
	if err := f.Chmod(fileMode); err != nil { // whatever the umask is
		return nil, errors.Join(classify(err, "set the mode of "+o.Path), t.Close())
	}
	return t, nil
}

// fittingSize is the size of the file to make.
func fittingSize(o FileOptions) (int64, error) {
	directory := filepath.Dir(o.Path)
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		return 0, classify(err, "look at the filesystem of "+directory)
	}
	if s.Blocks == 0 {
		return o.SizeBytes, nil // it doesn't tell, as some network filesystems don't
	}
	free := int64(min(s.Bavail, 1<<62/uint64(s.Bsize))) * s.Bsize
	if o.SizeBytes <= free {
		return o.SizeBytes, nil
	}
	if smaller := free / shrinkUnit * shrinkUnit; o.AllowSmaller && smaller > 0 {
		return smaller, nil
	}
	return 0, &Error{Reason: FilesystemTooSmall, Message: fmt.Sprintf(
		"the disk needs a file of %d bytes, and the volume's filesystem has room for %d: ask for a larger volume, which allows for the filesystem's own needs", o.SizeBytes, free)}
}

// Size implements Target.
func (t *file) Size() int64 { return t.size }

// Clear implements Target.
func (t *file) Clear(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.f.Truncate(0); err != nil { // a second Clear must forget what was written
		return classify(err, "empty "+t.path)
	}
	if err := t.f.Truncate(t.size); err != nil {
		return classify(err, fmt.Sprintf("make %s %d bytes long", t.path, t.size))
	}
	if !t.preallocate || t.size == 0 {
		return nil
	}
	err := retryInterrupted(func() error { return unix.Fallocate(int(t.f.Fd()), 0, 0, t.size) })
	if unsupported(err) { // as on NFS before version 4.2
		err = writeZeros(ctx, t.f, 0, t.size)
	}
	if ctxErr := ctx.Err(); err != nil && ctxErr != nil {
		return ctxErr
	}
	return classify(err, fmt.Sprintf("allocate %d bytes for %s", t.size, t.path))
}

// WriteAt implements Target.
func (t *file) WriteAt(p []byte, offset int64) (int, error) {
	n, err := t.f.WriteAt(p, offset)
	return n, classify(err, fmt.Sprintf("write %d bytes at offset %d of %s", len(p), offset, t.path))
}

// Commit implements Target.
func (t *file) Commit() error {
	if err := t.f.Sync(); err != nil {
		return classify(err, "bring "+t.path+" to stable storage")
	}
	directory, err := os.Open(filepath.Dir(t.path))
	if err != nil {
		return classify(err, "open the directory of "+t.path)
	}
	defer directory.Close() // only read
	return classify(directory.Sync(), "bring the directory of "+t.path+" to stable storage")
}

// Close implements Target.
func (t *file) Close() error { return classify(t.f.Close(), "close "+t.path) }

// retryInterrupted calls f again for as long as a signal interrupts it.
func retryInterrupted(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
