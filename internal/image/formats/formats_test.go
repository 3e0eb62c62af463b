package formats

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// TestBothWaysChooseTheSameFormat has everything that can be told from an image's beginning and its end.
func TestBothWaysChooseTheSameFormat(t *testing.T) {
	qcow2, _ := imagetest.Image(t, "qcow2", imagetest.Recipe{})
	vmdk, _ := imagetest.Image(t, "vmdk", imagetest.Recipe{})
	vhdx, _ := imagetest.Image(t, "vhdx", imagetest.Recipe{})
	vhd, _ := imagetest.Image(t, "vpc", imagetest.Recipe{Options: "force_size=on"})
	fixed, _ := imagetest.Image(t, "vpc", imagetest.Recipe{Options: "force_size=on,subformat=fixed"})
	vdi, _ := imagetest.Image(t, "vdi", imagetest.Recipe{})
	type answer struct {
		Format  image.Format
		Size    int64
		Refused image.Reason
	}
	tests := map[string]struct {
		content []byte
		want    answer
	}{
		"a qcow2 image":                {qcow2, answer{Format: image.QCOW2, Size: imagetest.DiskBytes}},
		"a vhdx image":                 {vhdx, answer{Format: image.VHDX, Size: imagetest.DiskBytes}},
		"a vhdx image that is cut":     {vhdx[:image.HeadBytes], answer{Refused: image.Truncated}},
		"a raw image":                  {imagetest.Disk(), answer{Format: image.Raw, Size: imagetest.DiskBytes}},
		"a raw image of half a sector": {imagetest.Disk()[:1000], answer{Format: image.Raw, Size: 1024}},
		"a gzip file":                  {append([]byte("\x1f\x8b\x08"), make([]byte, 600)...), answer{Refused: image.UnsupportedFormat}},
		"a vmdk image":                 {vmdk, answer{Format: image.VMDK, Size: imagetest.DiskBytes}},
		"a dynamic vhd image":          {vhd, answer{Format: image.VHD, Size: imagetest.DiskBytes}},
		"a fixed vhd image":            {fixed, answer{Format: image.VHD, Size: imagetest.DiskBytes}},
		"a vdi image":                  {vdi, answer{Format: image.VDI, Size: imagetest.DiskBytes}},
		"a vmdk descriptor":            {[]byte("# Disk DescriptorFile\nRW 1 FLAT \"x\" 0\n"), answer{Refused: image.DataFile}},
		"a web page":                   {[]byte("<html>"), answer{Refused: image.NotADisk}},
		"nothing":                      {nil, answer{Refused: image.NotADisk}},
		"a qcow2 header that is cut":   {append(qcow2[:60:60], make([]byte, 0, 1)...), answer{Refused: image.Truncated}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			judge := func(view interface {
				Format() image.Format
				Size() int64
			}, err error) answer {
				var refused *image.Refused
				if errors.As(err, &refused) {
					return answer{Refused: refused.Reason}
				}
				if err != nil {
					t.Fatal(err)
				}
				return answer{Format: view.Format(), Size: view.Size()}
			}
			length := int64(len(test.content))
			opened, err := Open(bytes.NewReader(test.content), length, image.Limits{})
			if diff := cmp.Diff(test.want, judge(opened, err)); diff != "" {
				t.Errorf("Open: %s", diff)
			}
			head := test.content[:min(length, image.HeadBytes)]
			for want := Wants(head); want > len(head) && int64(want) <= length; want = Wants(head) {
				head = test.content[:want]
			}
			forward, err := Begin(Beginning{head, length, bytes.NewReader(test.content)}, image.Limits{})
			if diff := cmp.Diff(test.want, judge(forward, err)); diff != "" {
				t.Errorf("Begin: %s", diff)
			}
		})
	}
}
