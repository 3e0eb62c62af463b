// Package formats chooses the format that reads an image, by the image's content and never by its name.
package formats

import (
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/qcow2"
	"vmdisk.io/vmdisk/internal/image/vdi"
	"vmdisk.io/vmdisk/internal/image/vhd"
	"vmdisk.io/vmdisk/internal/image/vhdx"
	"vmdisk.io/vmdisk/internal/image/vmdk"
)

// Open answers the view of the image of the given length in bytes, or an *image.Refused.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	head := make([]byte, max(0, min(length, image.HeadBytes)))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF { // a wrapped one is a failure
		return nil, fmt.Errorf("read the beginning of the image: %w", err)
	}
	format := image.Detect(head)
	if err := image.RefuseFormat(format); err != nil {
		return nil, err
	}
	switch format {
	case image.QCOW2:
		return qcow2.Open(r, length, limits)
	case image.VMDK:
		return vmdk.Open(r, length, limits)
	case image.VHD:
		return vhd.Open(r, length, limits)
	case image.VHDX:
		return vhdx.Open(r, length, limits)
	case image.VDI:
		return vdi.Open(r, length, limits)
	default:
		return vhd.OpenUnmarked(r, length)
	}
}

// Wants answers how many bytes from the beginning of the image that begins with head are needed to judge it: more than
// head has, or 0 where head is enough. It is asked again when those are there. Headers lie within image.HeadBytes with
// most formats, and within a few MiB with the others.
func Wants(head []byte) int {
	if image.Detect(head) == image.VHDX {
		return vhdx.Wants(head)
	}
	return 0
}

// Begin answers the forward pass over the image that begins with head, which is the whole image or at least
// image.HeadBytes of it, or an *image.Refused. The image's length in bytes may be image.Unknown. Where head has less
// than Wants asks for, the disk's size is image.Unknown, and the image may be refused by the pass instead.
//
// random reads the same image anywhere, and is nil where that can't be. It is asked for the last sector of what begins as
// a raw disk, which may be a fixed VHD's footer. Without it format and size of such an image are known after the pass.
func Begin(head []byte, length int64, random io.ReaderAt, limits image.Limits) (image.Forward, error) {
	format := image.Detect(head)
	if err := image.RefuseFormat(format); err != nil {
		return nil, err
	}
	switch format {
	case image.QCOW2:
		return qcow2.Begin(head, limits)
	case image.VMDK:
		return vmdk.Begin(head, limits)
	case image.VHD:
		return vhd.Begin(head, length, limits)
	case image.VHDX:
		return vhdx.Begin(head, length, limits)
	case image.VDI:
		return vdi.Begin(head, length, limits)
	default:
		return vhd.BeginUnmarked(head, length, random)
	}
}
