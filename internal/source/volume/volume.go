// Package volume reads a disk that lies on a mounted volume: the disk's file, or the block device. It is only ever read.
//
// What is on the disk is a guest's, and nothing here looks at it: the disk is raw, whatever it looks like.
package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/file"
)

// Options say which disk is read.
type Options struct {
	// Path is the disk's file, or the block device.
	Path string
	// SizeBytes is how long the disk is: a device may be longer. 0: as long as the file or the device.
	SizeBytes int64
	// Version changes whenever the disk's bytes may have changed; empty where nobody knows. A file tells that by itself.
	Version string
}

// disk implements source.Source and image.HoleFinder.
type disk struct {
	source.Source
	holes  image.HoleFinder
	o      Options
	length int64 // bytes, once it was described
}

// New opens the disk.
func New(o Options) (source.Source, error) {
	under, err := file.New(o.Path)
	var refused *source.Error
	switch {
	case errors.As(err, &refused) && refused.Reason == source.NotFound:
		refused.Message = "there is no disk on the source's volume (" + refused.Message + "): is it a virtual machine's disk, and was it filled?"
	case errors.As(err, &refused) && refused.Reason == source.Forbidden:
		refused.Message = fmt.Sprintf("user %d may not read the source's disk %s: a block device needs device_ownership_from_security_context set to true in the node's container runtime "+
			"(containerd or CRI-O), and a file must be readable by that user or by its group, %d", os.Getuid(), o.Path, os.Getgid())
	}
	if err != nil {
		return nil, err
	}
	return &disk{Source: under, holes: under.(image.HoleFinder), o: o}, nil
}

// Describe implements source.Source.
func (d *disk) Describe(ctx context.Context) (source.Description, error) {
	about, err := d.Source.Describe(ctx)
	if err != nil {
		return about, err
	}
	if about.Length < d.o.SizeBytes {
		return about, &source.Error{Reason: source.BadAnswer, Permanent: true, Message: fmt.Sprintf(
			"%s has %d bytes, fewer than the %d of the disk that should be on it", about.Name, about.Length, d.o.SizeBytes)}
	}
	if d.o.SizeBytes > 0 {
		about.Length = d.o.SizeBytes
	}
	if d.o.Version != "" {
		about.Validator = d.o.Version + " " + about.Validator
	}
	d.length = about.Length
	return about, nil
}

// Open implements source.Source.
func (d *disk) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	left := max(0, d.length-offset)
	if length < 0 || length > left {
		length = left
	}
	return d.Source.Open(ctx, offset, length)
}

// Hole implements image.HoleFinder.
func (d *disk) Hole(offset int64) (length int64, hole bool, err error) {
	length, hole, err = d.holes.Hole(offset)
	return min(length, d.length-offset), hole, err
}
