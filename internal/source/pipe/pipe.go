// Package pipe reads an image that passes by once: standard input, or a named pipe. It has no length and can't be read
// again.
//
// It must not know what the bytes mean.
package pipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"vmdisk.io/vmdisk/internal/source"
)

// pipeBytes is the size in bytes that a pipe is asked to have, so that fewer calls move more. It is the largest that the
// kernel gives to everybody.
const pipeBytes = 1 << 20

// pipeSource implements source.Source.
type pipeSource struct {
	f      *os.File
	name   string
	opened bool
}

// New makes a source of an open file. Close doesn't close it: whoever opened it does. The name is for messages.
func New(f *os.File, name string) source.Source {
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeBytes) // only for speed; what isn't a pipe refuses
	return &pipeSource{f: f, name: name}
}

// Describe implements source.Source.
func (s *pipeSource) Describe(ctx context.Context) (source.Description, error) {
	return source.Description{Name: s.name, Length: source.Unknown, Once: true}, ctx.Err()
}

// Open implements source.Source.
func (s *pipeSource) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.opened || offset != 0 || length >= 0 {
		return nil, &source.Error{Reason: source.ForwardOnly, Permanent: true, Message: fmt.Sprintf("%s passes by once and can't be read a second time: save it as a file first", s.name)}
	}
	wake, done, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to be woken by: %w", err)
	}
	s.opened = true
	r := &reader{source: s, ctx: ctx, wake: wake, done: done}
	r.stop = context.AfterFunc(ctx, func() { _ = r.done.Close() }) // which ends a wait; nobody writes to it
	return r, nil
}

// Close implements source.Source.
func (s *pipeSource) Close() error { return nil }

// reader reads the stream. A read from a pipe can't be interrupted, so it waits for bytes, or for ctx, beforehand.
type reader struct {
	source     *pipeSource
	ctx        context.Context // of the Open that made it
	wake, done *os.File        // the ends of a pipe; done is closed with ctx
	stop       func() bool
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := r.wait(); err != nil {
		return 0, err
	}
	n, err := r.source.f.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped one is a failure
		return n, r.failed(err)
	}
	return n, err
}

// wait returns once there is something to read, or ctx is done.
func (r *reader) wait() error {
	fds := []unix.PollFd{
		{Fd: int32(r.source.f.Fd()), Events: unix.POLLIN},
		{Fd: int32(r.wake.Fd()), Events: unix.POLLIN},
	}
	for {
		if err := r.ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w", r.source.name, err)
		}
		_, err := unix.Poll(fds, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return r.failed(err)
		}
		if fds[0].Revents != 0 {
			return nil
		}
	}
}

func (r *reader) failed(err error) error {
	return &source.Error{Reason: source.ReadFailed, Err: err, Message: fmt.Sprintf("%s can't be read: %v", r.source.name, err)}
}

// Close implements io.Closer. The stream itself stays open.
func (r *reader) Close() error {
	if r.stop() {
		_ = r.done.Close() // nothing was written to it
	}
	_ = r.wake.Close() // nothing was written to it
	return nil
}
