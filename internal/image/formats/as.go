package formats

import (
	"io"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/raw"
	"vmdisk.io/vmdisk/internal/image/vhd"
)

// OpenAs is Open for an image that somebody says is of a format. An empty format is whatever is detected; Raw takes the
// bytes as the disk's own, whatever they look like; with another one an image that isn't of it is refused.
func OpenAs(format image.Format, r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	if format == image.Raw {
		return raw.Open(r, length), nil
	}
	v, err := Open(r, length, limits)
	if err != nil {
		return nil, err
	}
	return v, refuseOther(format, v.Format())
}

// BeginAs is Begin in the same way.
func BeginAs(format image.Format, b Beginning, limits image.Limits) (image.Forward, error) {
	if format == image.Raw {
		return raw.Begin(b.Length), nil
	}
	if format == image.VHD && image.Detect(b.Head) == image.Raw {
		return vhd.BeginFixed(b.Head, b.Length, b.Random)
	}
	f, err := Begin(b, limits)
	if err != nil {
		return nil, err
	}
	return f, refuseOther(format, f.Format())
}

// refuseOther refuses an image that is not of the format that it should be of.
func refuseOther(want, got image.Format) error {
	if want == "" || want == got {
		return nil
	}
	return image.Refuse(image.UnsupportedFormat, "this is a %s image, and a %s image was asked for", got, want)
}
