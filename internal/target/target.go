// Package target says where a disk's bytes go: a file on a filesystem, a block device, or memory. A target makes zeros
// in the cheapest way that is certain to give them, and turns the kernel's errors into ones that name the volume and
// what to do.
//
// It must not know where the bytes come from, what format they had, or anything of Kubernetes.
package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// Target is a disk to be filled. The order of calls is Clear, any number of WriteAt, ReadAt and Sync, Commit; and Close in the
// end, whatever happened. Only WriteAt, ReadAt and Sync may be called from several goroutines at once. Clear is left out where
// the disk is the one that an earlier attempt has begun to fill, by its Identity, and is filled on.
//
// Every error is an *Error, or wraps one, unless ctx was done; then it wraps ctx.Err().
type Target interface {
	// Size is the disk's length in bytes.
	Size() int64
	// Clear makes every byte of the disk zero, whatever was there.
	Clear(ctx context.Context) error
	// WriteAt writes all of p, within Size.
	io.WriterAt
	// ReadAt reads what was written.
	io.ReaderAt
	// Sync brings everything whose WriteAt has returned, and what Clear did, to stable storage. Once it has failed it
	// always fails.
	Sync() error
	// Identity tells the disk, once it was cleared, from any other one, also after a restart; empty where nothing does.
	Identity() string
	// Commit brings everything that was written to stable storage.
	Commit() error
	// Close gives back what the target holds. Without a Commit before, what the disk then holds is undefined.
	Close() error
}

// Resizer is a Target whose length may be set to that of the disk once it is known, before Commit.
type Resizer interface {
	Target
	// Resize makes the disk size bytes long. What lies behind the bytes that were written reads as zeros.
	Resize(size int64) error
}

// Cached is a Target whose ReadAt may answer from memory.
type Cached interface {
	Target
	// DropCache makes ReadAt read what Sync has brought to the storage from there.
	DropCache() error
}

// Holed is a Target that knows where its storage holds nothing.
type Holed interface {
	Target
	// Hole reports whether n bytes at offset are certain to read as zeros without being read.
	Hole(offset, n int64) bool
}

// Unknown is the SizeBytes of a file that is as long as the disk turns out to be.
const Unknown int64 = -1

// Preallocation says what space a disk takes before it is used.
type Preallocation string

// The preallocations.
const (
	// Sparse takes space for what is written only.
	Sparse Preallocation = ""
	// Falloc has space allocated for every byte, and nothing written where the kernel can do without.
	Falloc Preallocation = "falloc"
	// Full has every byte written, so that also a thin device below has its space allocated.
	Full Preallocation = "full"
)

// moved is told whenever the storage has done something; nil: nobody is.
type moved func()

func (m moved) tell() {
	if m != nil {
		m()
	}
}

// Reason is one stable word for why a target did not take the bytes.
type Reason string

// The reasons.
const (
	// NoSpace: the volume is full.
	NoSpace Reason = "NoSpace"
	// FilesystemTooSmall: the filesystem can't hold a file of the disk's size.
	FilesystemTooSmall Reason = "FilesystemTooSmall"
	// DeviceTooSmall: the device has fewer bytes than the disk.
	DeviceTooSmall Reason = "DeviceTooSmall"
	// Permission: the worker may not open the volume.
	Permission Reason = "Permission"
	// ReadOnly: the volume can't be written.
	ReadOnly Reason = "ReadOnly"
	// Missing: the volume isn't where it should be.
	Missing Reason = "Missing"
	// NotADevice: what should be a block device isn't one.
	NotADevice Reason = "NotADevice"
	// InUse: the device is mounted, or a part of another one.
	InUse Reason = "InUse"
	// IO: the volume failed.
	IO Reason = "IO"
)

// Error says that a target did not take the bytes.
type Error struct {
	Reason Reason
	// Message is a sentence for the disk's owner.
	Message string
	// Err is the cause, if there is one.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap answers the cause.
func (e *Error) Unwrap() error { return e.Err }

// classify turns an error of the kernel into an *Error. what was attempted is said in words, with the place.
func classify(err error, what string) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Reason: IO, Message: fmt.Sprintf("%s: %v", what, cause(err)), Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		e.Reason = NoSpace
		e.Message = fmt.Sprintf("%s: the volume is full (%v); ask for a larger one, or make room in its storage pool", what, cause(err))
	case errors.Is(err, syscall.EROFS):
		e.Reason = ReadOnly
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Reason = Permission
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		e.Reason = Missing
	}
	return e
}

// cause is the kernel's own word within err.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
