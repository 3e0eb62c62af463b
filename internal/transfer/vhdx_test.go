package transfer

import (
	"errors"
	"os"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/target"
)

// TestAVHDXImage has a format whose header is not within image.HeadBytes, and with a large log not even near.
func TestAVHDXImage(t *testing.T) {
	for name, options := range map[string]string{"a header that is near": "block_size=1M", "a header that is far": "block_size=1M,log_size=16M"} {
		t.Run(name, func(t *testing.T) {
			path, want := imagetest.MakeAs(t, t.TempDir(), "vhdx", imagetest.Recipe{Options: options})
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, forward := range []bool{false, true} {
				to := target.NewMemory(imagetest.DiskBytes + 512)
				report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content, Forward: forward}, Target: to, Checksum: checksumOf(t, content)})
				if err != nil {
					t.Fatal(err)
				}
				requireDisk(t, to, want)
				if report.VirtualBytes != imagetest.DiskBytes || report.ReadBytes != int64(len(content)) || report.Format != image.VHDX {
					t.Errorf("report %+v", report)
				}
				small := target.NewMemory(imagetest.DiskBytes - 512)
				_, err = Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content, Forward: forward}, Target: small})
				var refused *image.Refused
				if !errors.As(err, &refused) || refused.Reason != LargerThanDisk {
					t.Errorf("got %v", err)
				}
				b, _ := small.Bytes()
				if untouched := b[0] == 0xa5; untouched != (name == "a header that is near") {
					t.Errorf("untouched is %v", untouched)
				}
			}
		})
	}
}
