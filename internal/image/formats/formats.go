// Package formats chooses the format that reads an image, by the image's content and never by its name.
package formats

import (
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
	head, err := image.File{R: r, Length: length}.Head()
	if err != nil {
		return nil, err
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

// Beginning is what is known of an image before it is decoded.
type Beginning struct {
	// Head is the whole image or at least image.HeadBytes of it. Where it has less than Wants asks for, the disk's size is
	// image.Unknown, and the image may be refused by the pass instead.
	Head []byte
	// Length is the image's, in bytes, or image.Unknown.
	Length int64
	// Random reads the same image anywhere; nil where the source can't. It is asked for the last sector of what begins as
	// a raw disk, which may be a fixed VHD's footer. Without it format and size of such an image are known after the pass.
	Random io.ReaderAt
}

// Begin answers the forward pass over an image, or an *image.Refused.
func Begin(b Beginning, limits image.Limits) (image.Forward, error) {
	format := image.Detect(b.Head)
	if err := image.RefuseFormat(format); err != nil {
		return nil, err
	}
	switch format {
	case image.QCOW2:
		return qcow2.Begin(b.Head, limits)
	case image.VMDK:
		return vmdk.Begin(b.Head, limits)
	case image.VHD:
		return vhd.Begin(b.Head, b.Length, limits)
	case image.VHDX:
		return vhdx.Begin(b.Head, b.Length, limits)
	case image.VDI:
		return vdi.Begin(b.Head, b.Length, limits)
	default:
		return vhd.BeginUnmarked(b.Head, b.Length, b.Random)
	}
}
