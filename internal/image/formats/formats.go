// Package formats chooses the format that reads an image, by the image's content and never by its name.
package formats

import (
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/qcow2"
	"vmdisk.io/vmdisk/internal/image/raw"
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
	default:
		return raw.Open(r, length)
	}
}

// Begin answers the forward pass over the image that begins with head, which is the whole image or at least
// image.HeadBytes of it, or an *image.Refused. The image's length in bytes may be image.Unknown.
func Begin(head []byte, length int64, limits image.Limits) (image.Forward, error) {
	format := image.Detect(head)
	if err := image.RefuseFormat(format); err != nil {
		return nil, err
	}
	switch format {
	case image.QCOW2:
		return qcow2.Begin(head, limits)
	case image.VMDK:
		return vmdk.Begin(head, limits)
	default:
		return raw.Begin(length), nil
	}
}
