package vmdk

import (
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	writes := imagetest.RandomWrites(300)
	for name, recipe := range map[string]imagetest.Recipe{
		"monolithicSparse":                     {Options: "subformat=monolithicSparse"},
		"streamOptimized":                      {Options: "subformat=streamOptimized"},
		"version 6":                            {Options: "subformat=monolithicSparse,compat6"},
		"zero grains":                          {Options: "subformat=monolithicSparse,zeroed_grain=on", Steps: []string{"io write -z 0 1M", "io write -z 4M 300k"}},
		"written at random":                    {Options: "subformat=monolithicSparse", Empty: true, Steps: writes},
		"written at random over what is there": {Options: "subformat=monolithicSparse", Steps: writes},
		"zero grains, written at random":       {Options: "subformat=monolithicSparse,zeroed_grain=on", Empty: true, Steps: append(writes[:100:100], "io write -z 1M 3M", "io write -P 3 2M 70k")},
		"empty":                                {Options: "subformat=monolithicSparse", Empty: true},
		"empty, streamOptimized":               {Options: "subformat=streamOptimized", Empty: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, disk := imagetest.Image(t, "vmdk", recipe)
			compare(t, content, disk)
		})
	}
}

// compare reads an image in every way, also by two passes of which the first was stopped.
func compare(t *testing.T, content, disk []byte) {
	ways := waysForward()
	imagetest.RequireReads(t, content, disk, Open, ways)
	h, err := parseBeginning(content[:image.HeadBytes], image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	tables := h.overhead + 256<<10 // tables are read again together with what lies behind them
	if h.directory < 0 {
		tables = 0
	}
	for _, name := range []string{"forward with ranges", "forward with little memory and ranges"} {
		t.Run("in two passes, "+name, func(t *testing.T) {
			got := imagetest.RequireResume(t, ways[name], content, disk, 50, func(int64) int64 { return tables })
			if len(got.Marks) < got.Pieces/2 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestReadsStreamsAsVMwareWritesThem compares with qemu-img on images that QEMU reads and doesn't write.
func TestReadsStreamsAsVMwareWritesThem(t *testing.T) {
	disk := imagetest.Disk()[:4<<20+3*sector]
	clear(disk[1<<20 : 2<<20])
	for name, s := range map[string]shape{
		"tables behind their grains":           {},
		"all tables at the end":                {tablesLast: true},
		"all tables behind one marker":         {tablesLast: true, twoInOne: true},
		"zeros before the first grain":         {padFirst: true},
		"zero grains":                          {zeroGrains: true},
		"tables without a grain":               {emptyTable: true},
		"two directories":                      {redundant: true},
		"a last grain that ends with the disk": {cutLast: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := stream(disk, s)
			path := filepath.Join(t.TempDir(), "stream.vmdk")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			want, ok := imagetest.TryConvert(t, path, "vmdk")
			if !ok {
				t.Fatal("QEMU doesn't read it")
			}
			imagetest.RequireEqual(t, want, disk)
			compare(t, content, disk)
		})
	}
}

// begin begins with as much as every image gives.
func begin(content []byte, limits image.Limits) (image.Forward, error) {
	return Begin(content[:min(len(content), image.HeadBytes)], limits)
}

func waysForward() imagetest.Ways {
	little, none := image.Limits{MemoryBytes: 64 << 10}, image.Limits{MemoryBytes: 1}
	return imagetest.Ways{
		"forward":                                  {Begin: begin},
		"forward with ranges":                      {Begin: begin, Random: true},
		"forward with little memory and ranges":    {Begin: begin, Random: true, Limits: little, MayRefuse: true},
		"forward with no memory and ranges":        {Begin: begin, Random: true, Limits: none, MayRefuse: true},
		"forward with little memory and no ranges": {Begin: begin, Limits: little, MayRefuse: true},
	}
}

// TestMutantsAreReadAsQEMUReadsThem changes a few bytes, most of them of metadata, of small images of every kind.
func TestMutantsAreReadAsQEMUReadsThem(t *testing.T) {
	imagetest.Mutants{
		Format: "vmdk", Images: seeds(t), Place: anyByte, Count: 300, Limits: image.Limits{DiskBytes: 4 << 20},
	}.Require(t, Open, hostileWays(0), excuse)
}
