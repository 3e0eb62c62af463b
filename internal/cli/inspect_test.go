package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

func inspected(t *testing.T, code int, args ...string) inspection {
	t.Helper()
	got := runHere(t, nil, append([]string{"inspect", "-o", "json"}, args...)...)
	var i inspection
	if err := json.Unmarshal([]byte(got.Stdout), &i); err != nil || got.Code != code {
		t.Fatalf("%+v: %v", got, err)
	}
	return i
}

// TestInspectsAsQEMUDoes compares with qemu-img info and map.
func TestInspectsAsQEMUDoes(t *testing.T) {
	for _, name := range []string{"version 2, zlib", "zstd", "extended L2 entries", "two snapshots and zlib", "clusters of 4 KiB"} {
		t.Run(name, func(t *testing.T) {
			path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipes()[name])
			out, err := exec.Command("qemu-img", "info", "--output=json", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			var info struct {
				Format      string `json:"format"`
				VirtualSize int64  `json:"virtual-size"`
				ClusterSize int64  `json:"cluster-size"`
				Snapshots   []any  `json:"snapshots"`
				Specific    struct {
					Data struct {
						Compat      string `json:"compat"`
						Compression string `json:"compression-type"`
						ExtendedL2  bool   `json:"extended-l2"`
					}
				} `json:"format-specific"`
			}
			if err := json.Unmarshal(out, &info); err != nil {
				t.Fatal(err)
			}
			variant := fmt.Sprintf("version %d, clusters of %d bytes", map[string]int{"0.10": 2, "1.1": 3}[info.Specific.Data.Compat], info.ClusterSize)
			if len(info.Snapshots) > 0 {
				variant += fmt.Sprintf(", %d internal snapshots", len(info.Snapshots))
			}
			if info.Specific.Data.ExtendedL2 {
				variant += ", extended L2 entries"
			}
			data := dataExtents{}
			for _, m := range qemuMap(t, "qcow2", path) {
				if m.Data {
					data.Extents, data.Bytes = data.Extents+1, data.Bytes+m.Length
				}
			}
			stat, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			got := inspected(t, 0, path)
			data.CompressedBytes = got.Data.CompressedBytes // this QEMU doesn't tell
			want := inspection{
				Source: path, Bytes: stat.Size(), Format: image.Format(info.Format), Variant: variant, Compression: info.Specific.Data.Compression,
				VirtualBytes: info.VirtualSize, Data: &data, Forward: &forwardPass{true, minMemory}, Claim: &claimSizes{Block: int64(len(disk)), Filesystem: volume.Inflated(int64(len(disk)), cdi.DefaultOverhead)},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInspectNamesWhatIsNeverOpened(t *testing.T) {
	dir := t.TempDir()
	path, _ := imagetest.Make(t, dir, imagetest.Recipe{})
	backed := filepath.Join(dir, "backed.qcow2")
	imagetest.Run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-b", path, "-F", "qcow2", backed)
	got := inspected(t, exitRefused, backed)
	if diff := cmp.Diff([]reference{{"backing file", path}}, got.References); diff != "" || got.Refused == nil || got.Refused.Reason != image.BackingFile {
		t.Errorf("%s%+v", diff, got.Refused)
	}
}

// TestInspectReadsOnlyTheTables looks at what a server was asked for.
func TestInspectReadsOnlyTheTables(t *testing.T) {
	path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipe{})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	if got := inspected(t, 0, server.URL); got.VirtualBytes != int64(len(disk)) || got.Data == nil {
		t.Errorf("%+v", got)
	}
	var total int64
	for _, request := range server.Requests() {
		var first, last int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(request, "GET "), "bytes=%d-%d", &first, &last); err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		total += last - first + 1
	}
	if total > 4*64<<10 {
		t.Errorf("%d of %d bytes were asked for: %v", total, len(content), server.Requests())
	}
}

func TestInspectReadsTheBeginningWhereThatIsAllThereIs(t *testing.T) {
	path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipe{})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := runHere(t, content, "inspect", "-")
	want := ran{Stdout: fmt.Sprintf(`source:       standard input
format:       qcow2
variant:      version 3, clusters of 65536 bytes
compression:  zlib
virtual size: %d bytes
claim:        %d bytes as Block, %d bytes as Filesystem
`, len(disk), len(disk), volume.Inflated(int64(len(disk)), cdi.DefaultOverhead))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestInspectTellsOfEachFormat has what the header says, and the files that it names.
func TestInspectTellsOfEachFormat(t *testing.T) {
	dir := t.TempDir()
	create := func(name, format, options string, more ...string) string {
		path := filepath.Join(dir, name)
		args := append([]string{"create", "-q", "-f", format, "-o", options}, more...)
		imagetest.Run(t, "qemu-img", append(args, path)...)
		return path
	}
	base := create("base.vmdk", "vmdk", "size=9M,subformat=monolithicSparse")
	compressed, _ := imagetest.MakeAs(t, t.TempDir(), "vmdk", imagetest.Recipe{Options: "subformat=streamOptimized"})
	type told struct {
		Format               image.Format
		Variant, Compression string
		References           []reference
		Refused              image.Reason
	}
	tests := map[string]struct {
		path string
		want told
	}{
		"a sparse vmdk":           {base, told{Format: "vmdk", Variant: "monolithicSparse, version 1, grains of 65536 bytes"}},
		"a stream-optimized vmdk": {compressed, told{Format: "vmdk", Variant: "streamOptimized, version 3, grains of 65536 bytes", Compression: "deflate"}},
		"a vmdk with a parent": {create("child.vmdk", "vmdk", "subformat=monolithicSparse", "-b", base, "-F", "vmdk"),
			told{Format: "vmdk", Variant: "monolithicSparse, version 1, grains of 65536 bytes", References: []reference{{"parent", base}}, Refused: image.BackingFile}},
		"a flat vmdk": {create("flat.vmdk", "vmdk", "size=9M,subformat=monolithicFlat"),
			told{Format: "vmdk", Variant: "monolithicFlat", References: []reference{{"extent", "flat-flat.vmdk"}}, Refused: image.DataFile}},
		"a dynamic vhdx": {create("dynamic.vhdx", "vhdx", "size=9M,block_size=1M"), told{Format: "vhdx", Variant: "dynamic, blocks of 1048576 bytes, sectors of 512 bytes"}},
		"a vhdx with a large log": {create("log.vhdx", "vhdx", "size=9M,block_size=1M,log_size=4M"),
			told{Format: "vhdx", Variant: "dynamic, blocks of 1048576 bytes, sectors of 512 bytes"}},
		"a fixed vhdx":      {create("fixed.vhdx", "vhdx", "size=9M,block_size=1M,subformat=fixed"), told{Format: "vhdx", Variant: "fixed, blocks of 1048576 bytes, sectors of 512 bytes"}},
		"a dynamic vhd":     {create("dynamic.vhd", "vpc", "size=9M,force_size=on"), told{Format: "vhd", Variant: "dynamic, blocks of 2097152 bytes"}},
		"a fixed vhd":       {create("fixed.vhd", "vpc", "size=9M,force_size=on,subformat=fixed"), told{Format: "vhd", Variant: "fixed"}},
		"a dynamic vdi":     {create("dynamic.vdi", "vdi", "size=9M"), told{Format: "vdi", Variant: "dynamic, blocks of 1048576 bytes"}},
		"a static vdi":      {create("static.vdi", "vdi", "size=9M,static=on"), told{Format: "vdi", Variant: "static, blocks of 1048576 bytes"}},
		"a vdi of a parent": {childVDI(t), told{Format: "vdi", Variant: "differences, blocks of 1048576 bytes", References: []reference{{"parent", "00000001-0000-0000-0000-000000000000"}}, Refused: image.BackingFile}},
		"an external data file": {create("data.qcow2", "qcow2", "size=9M,data_file="+dir+"/data.raw"),
			told{Format: "qcow2", Variant: "version 3, clusters of 65536 bytes", Compression: "zlib", References: []reference{{"data file", dir + "/data.raw"}}, Refused: image.DataFile}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code := exitDone
			if test.want.Refused != "" {
				code = exitRefused
			}
			i := inspected(t, code, test.path)
			got := told{i.Format, i.Variant, i.Compression, i.References, ""}
			if i.Refused != nil {
				got.Refused = i.Refused.Reason
			} else if i.VirtualBytes != 9<<20 && i.VirtualBytes != imagetest.DiskBytes {
				t.Errorf("a disk of %d bytes", i.VirtualBytes)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// childVDI is an image of differences.
func childVDI(t *testing.T) string {
	t.Helper()
	path, _ := imagetest.MakeAs(t, t.TempDir(), "vdi", imagetest.Recipe{Empty: true})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[0x4c] = 4  // its type
	content[0x1a8] = 1 // of its parent's identifier
	return write(t, string(content))
}

// TestInspectTellsWhatOnePassTakes compares with what converting from a pipe really takes.
func TestInspectTellsWhatOnePassTakes(t *testing.T) {
	qcow2 := func(r imagetest.Recipe) string {
		path, _ := imagetest.Make(t, t.TempDir(), r)
		return path
	}
	vhdx, _ := imagetest.MakeAs(t, t.TempDir(), "vhdx", imagetest.Recipe{Options: "block_size=1M"})
	vmdk, _ := imagetest.MakeAs(t, t.TempDir(), "vmdk", imagetest.Recipe{Options: "subformat=streamOptimized"})
	vhd, _ := imagetest.MakeAs(t, t.TempDir(), "vpc", imagetest.Recipe{Options: "force_size=on"})
	vdi, _ := imagetest.MakeAs(t, t.TempDir(), "vdi", imagetest.Recipe{})
	tests := map[string]struct {
		path string
		want forwardPass
	}{
		"tables first":          {qcow2(imagetest.Recipe{Compressed: true}), forwardPass{true, 1 << 20}},
		"tables last":           {qcow2(imagetest.Recipe{Options: "cluster_size=512,preallocation=full", Empty: true, Steps: []string{"resize 64M"}}), forwardPass{true, 16 << 20}},
		"vhdx":                  {vhdx, forwardPass{true, 4 << 20}},
		"stream-optimized vmdk": {vmdk, forwardPass{true, 1 << 20}},
		"dynamic vhd":           {vhd, forwardPass{true, 1 << 20}},
		"vdi":                   {vdi, forwardPass{true, 1 << 20}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := inspected(t, 0, test.path)
			if got.Forward == nil {
				t.Fatal("nothing is told")
			}
			if diff := cmp.Diff(test.want, *got.Forward); diff != "" {
				t.Error(diff)
			}
			content, err := os.ReadFile(test.path)
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(t.TempDir(), "disk.raw")
			convert := func(memory int64) int {
				return runHere(t, content, "convert", "--memory", fmt.Sprint(memory), "-", target).Code
			}
			if code := convert(got.Forward.MemoryBytes); code != exitDone {
				t.Errorf("with so much memory the exit code is %d", code)
			}
			if half := got.Forward.MemoryBytes / 2; half >= minMemory {
				if code := convert(half); code != exitRefused {
					t.Errorf("with half of it the exit code is %d", code)
				}
				if i := inspected(t, 0, "--memory", fmt.Sprint(half), test.path); *i.Forward != (forwardPass{}) {
					t.Errorf("where only half is allowed: %+v", *i.Forward)
				}
			}
		})
	}
}
