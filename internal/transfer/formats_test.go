package transfer

import (
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/target"
)

// TestEveryFormatGivesTheSameDisk transfers one disk that qemu-img has converted to each format.
func TestEveryFormatGivesTheSameDisk(t *testing.T) {
	want := imagetest.Disk()
	for name, test := range map[string]struct {
		format  image.Format
		name    string // QEMU's for it
		options string
	}{
		"vmdk, monolithicSparse": {image.VMDK, "vmdk", "subformat=monolithicSparse"},
		"vmdk, streamOptimized":  {image.VMDK, "vmdk", "subformat=streamOptimized"},
		"vhd, dynamic":           {image.VHD, "vpc", "force_size=on"},
		"vhd, fixed":             {image.VHD, "vpc", "force_size=on,subformat=fixed"},
		"vdi, dynamic":           {image.VDI, "vdi", "static=off"},
		"vdi, static":            {image.VDI, "vdi", "static=on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			raw, path := filepath.Join(dir, "raw"), filepath.Join(dir, "image")
			if err := os.WriteFile(raw, want, 0o600); err != nil {
				t.Fatal(err)
			}
			imagetest.Run(t, "qemu-img", "convert", "-f", "raw", "-O", test.name, "-o", test.options, raw, path)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for way, src := range map[string]*sourcetest.Memory{
				"with ranges":    {Content: content},
				"without ranges": {Content: content, Forward: true},
			} {
				t.Run(way, func(t *testing.T) {
					disk := target.NewMemory(int64(len(want)) + 4096)
					report, err := Run(t.Context(), Job{Source: src, Target: disk, Checksum: checksumOf(t, content)})
					if err != nil {
						t.Fatal(err)
					}
					requireDisk(t, disk, want)
					if report.Format != test.format || report.VirtualBytes != int64(len(want)) || report.ReadBytes != int64(len(content))+readTwice(content, src.Forward || name != "vhd, fixed") {
						t.Errorf("report %+v", report)
					}
				})
			}
		})
	}
}
