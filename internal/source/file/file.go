// Package file reads an image that lies in a file, or on a block device, of this machine.
//
// It must not know what the bytes mean. It opens the one path that it is given, and no other.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"vmdisk.io/vmdisk/internal/source"
)

// fileSource implements source.Source.
type fileSource struct {
	f    *os.File
	path string

	length int64
	state  state // what Describe saw
}

// state is what tells that a regular file has changed. A block device's time says nothing about its bytes, so the zero
// state stands for it.
type state struct {
	length, modified int64 // bytes, nanoseconds
}

// New opens the path. A named pipe or a terminal is refused with NotAFile; package pipe reads those.
func New(path string) (source.Source, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // so that a pipe nobody writes to is refused at once
	if err != nil {
		return nil, openError(path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(readError(path, err), f.Close())
	}
	if !isFile(info.Mode()) {
		_ = f.Close() // only opened
		return nil, &source.Error{Reason: source.NotAFile, Permanent: true, Message: fmt.Sprintf("%s is %s, not a file or a block device", path, kind(info.Mode()))}
	}
	return &fileSource{f: f, path: path}, nil
}

// isFile reports whether bytes can be read at any place: a regular file or a block device.
func isFile(m fs.FileMode) bool {
	return m.IsRegular() || m&fs.ModeDevice != 0 && m&fs.ModeCharDevice == 0
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a character device"
	}
}

func openError(path string, err error) error {
	e := &source.Error{Reason: source.ReadFailed, Err: err, Message: fmt.Sprintf("%s can't be opened: %v", path, cause(err))}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Reason, e.Permanent, e.Message = source.NotFound, true, fmt.Sprintf("there is no file %s", path)
	case errors.Is(err, fs.ErrPermission):
		e.Reason, e.Permanent, e.Message = source.Forbidden, true, fmt.Sprintf("user %d may not read %s", os.Getuid(), path)
	}
	return e
}

func readError(path string, err error) error {
	return &source.Error{Reason: source.ReadFailed, Err: err, Message: fmt.Sprintf("%s can't be read: %v", path, cause(err))}
}

// cause is the kernel's own word within err.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// Describe implements source.Source.
func (s *fileSource) Describe(ctx context.Context) (source.Description, error) {
	if err := ctx.Err(); err != nil {
		return source.Description{}, err
	}
	length, err := s.f.Seek(0, io.SeekEnd) // which tells a block device's size, too
	if err != nil {
		return source.Description{}, readError(s.path, err)
	}
	now, err := s.look()
	if err != nil {
		return source.Description{}, err
	}
	s.length, s.state = length, now
	d := source.Description{Name: s.path, Length: length, Ranges: true}
	if now != (state{}) {
		d.Validator = fmt.Sprintf("%d bytes, modified at %d", now.length, now.modified)
	}
	return d, nil
}

// look answers the file's present state.
func (s *fileSource) look() (state, error) {
	info, err := s.f.Stat()
	if err != nil {
		return state{}, readError(s.path, err)
	}
	if !info.Mode().IsRegular() {
		return state{}, nil
	}
	return state{length: info.Size(), modified: info.ModTime().UnixNano()}, nil
}

// Open implements source.Source.
func (s *fileSource) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if length < 0 {
		length = max(0, s.length-offset)
	}
	return &reader{source: s, ctx: ctx, section: io.NewSectionReader(s.f, offset, min(length, max(0, s.length-offset)))}, nil
}

// Hole answers how long the hole, or the run that is none, that begins at offset is; see HoleFinder of package image.
// Where the filesystem doesn't tell, nothing is a hole.
func (s *fileSource) Hole(offset int64) (length int64, hole bool, err error) {
	data, err := unix.Seek(int(s.f.Fd()), offset, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO): // no data behind offset
		return s.length - offset, true, nil
	case errors.Is(err, unix.EINVAL): // not told, as for devices
		return s.length - offset, false, nil
	case err != nil:
		return 0, false, readError(s.path, err)
	case data > offset:
		return data - offset, true, nil
	}
	end, err := unix.Seek(int(s.f.Fd()), offset, unix.SEEK_HOLE)
	if err != nil {
		return 0, false, readError(s.path, err)
	}
	return end - offset, false, nil
}

// Close implements source.Source.
func (s *fileSource) Close() error {
	if err := s.f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// reader reads a part of the file.
type reader struct {
	source  *fileSource
	ctx     context.Context // of the Open that made it
	section *io.SectionReader
	read    int64
}

// Read implements io.Reader. At the end of its part it sees whether the file is still the one that Describe saw, and before it hands over the last
// bytes of it: whoever has all that it wanted asks no further.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read %s: %w", r.source.path, err)
	}
	n, err := r.section.Read(p)
	r.read += int64(n)
	switch {
	case err == nil && r.read < r.section.Size():
		return n, nil
	case err == nil:
	case err != io.EOF: //nolint:errorlint // a wrapped one is a failure
		return n, readError(r.source.path, err)
	}
	now, lookErr := r.source.look()
	if lookErr != nil {
		return n, lookErr
	}
	if now != r.source.state || r.read < r.section.Size() {
		return 0, &source.Error{Reason: source.Changed, Message: fmt.Sprintf("%s was changed while it was being read: wait until whatever writes it is done, and try again", r.source.path)}
	}
	return n, err
}

// Close implements io.Closer.
func (r *reader) Close() error { return nil }
