package formats

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

func TestAFormatThatIsAskedForIsTheOneThatIsRead(t *testing.T) {
	gzip := append([]byte("\x1f\x8b\x08"), make([]byte, 600)...)
	disk := make([]byte, 1024)
	fixed, _ := imagetest.Image(t, "vpc", imagetest.Recipe{Options: "force_size=on,subformat=fixed"})
	type answer struct {
		Format image.Format
		Size   int64
		Error  image.Refused
	}
	tests := map[string]struct {
		format  image.Format
		content []byte
		want    answer
	}{
		"none, for a disk":     {"", disk, answer{Format: image.Raw, Size: 1024}},
		"raw, for a disk":      {image.Raw, disk, answer{Format: image.Raw, Size: 1024}},
		"raw, for anything":    {image.Raw, gzip, answer{Format: image.Raw, Size: 1024}},
		"raw, for a few bytes": {image.Raw, []byte("text"), answer{Format: image.Raw, Size: 512}},
		"vhd, for a fixed one": {image.VHD, fixed, answer{Format: image.VHD, Size: imagetest.DiskBytes}},
		"vhd, for a disk":      {image.VHD, disk, answer{Error: image.Refused{Reason: image.UnsupportedFormat, Message: "this is a raw image, and a vhd image was asked for"}}},
		"another than it is":   {image.QCOW2, disk, answer{Error: image.Refused{Reason: image.UnsupportedFormat, Message: "this is a raw image, and a qcow2 image was asked for"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			judge := func(view interface {
				Format() image.Format
				Size() int64
			}, err error) (a answer) {
				var refused *image.Refused
				switch {
				case errors.As(err, &refused):
					return answer{Error: *refused}
				case err != nil:
					t.Fatal(err)
				}
				return answer{Format: view.Format(), Size: view.Size()}
			}
			length := int64(len(test.content))
			view, err := OpenAs(test.format, bytes.NewReader(test.content), length, image.Limits{})
			if diff := cmp.Diff(test.want, judge(view, err)); diff != "" {
				t.Errorf("OpenAs: %s", diff)
			}
			forward, err := BeginAs(test.format, Beginning{Head: test.content, Length: length}, image.Limits{})
			if diff := cmp.Diff(test.want, judge(forward, err)); diff != "" {
				t.Errorf("BeginAs: %s", diff)
			}
		})
	}
}
