package vhdx

import (
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// recipes are images of every kind that QEMU makes.
func recipes() map[string]imagetest.Recipe {
	scattered := imagetest.RandomWrites(60)
	return map[string]imagetest.Recipe{
		"dynamic":                              {},
		"dynamic, blocks of 1 MiB":             {Options: "block_size=1M"},
		"dynamic, blocks of 2 MiB":             {Options: "block_size=2M"},
		"dynamic, blocks of 256 MiB":           {Options: "block_size=256M"},
		"dynamic, a log of 16 MiB":             {Options: "log_size=16M,block_size=1M"},
		"dynamic, not present instead of zero": {Options: "block_state_zero=off,block_size=1M", Empty: true, Steps: scattered[:10]},
		"dynamic, empty":                       {Empty: true},
		"dynamic, written at random":           {Options: "block_size=1M", Empty: true, Steps: scattered},
		"dynamic, backwards":                   {Options: "block_size=1M", Empty: true, Steps: []string{"io write -P 1 8M 5k", "io write -P 2 6M 1M", "io write -P 3 3M 512", "io write -P 4 0 1k"}},
		"fixed":                                {Options: "subformat=fixed"},
		"fixed, blocks of 1 MiB":               {Options: "subformat=fixed,block_size=1M"},
		"fixed, empty":                         {Options: "subformat=fixed,block_size=1M", Empty: true, Steps: scattered[:10]},
	}
}

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	for name, recipe := range recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, disk := imagetest.Image(t, "vhdx", recipe)
			compare(t, content, disk, waysForward())
			t.Run("tables moved to the end", func(t *testing.T) {
				ways := waysForward()
				for name, way := range ways {
					way.MayRefuse = !way.Random
					ways[name] = way
				}
				compare(t, tablesLast(content), disk, ways)
			})
		})
	}
}

// compare reads an image in every way, also by two passes of which the first was stopped.
func compare(t *testing.T, content, disk []byte, ways imagetest.Ways) {
	imagetest.RequireReads(t, content, disk, Open, ways)
	s, err := parseSection(content[:sectionLen])
	if err != nil {
		t.Fatal(err)
	}
	tables := int64(sectionLen) + s.bat.length + s.metadata.length
	for _, name := range []string{"forward with ranges", "forward with little memory and ranges"} {
		t.Run("in two passes, "+name, func(t *testing.T) {
			got := imagetest.RequireResume(t, ways[name], content, disk, 50, func(int64) int64 { return tables })
			if len(got.Marks) < got.Pieces-1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// beginWith begins with so many bytes of an image at most.
func beginWith(most int) imagetest.Beginner {
	return func(content []byte, limits image.Limits) (image.Forward, error) {
		return Begin(content[:min(len(content), most)], int64(len(content)), limits)
	}
}

func waysForward() imagetest.Ways {
	short, whole := beginWith(image.HeadBytes), beginWith(MaxHeadBytes)
	return imagetest.Ways{
		"forward":                                  {Begin: short},
		"forward with the whole head":              {Begin: whole},
		"forward with ranges":                      {Begin: short, Random: true},
		"forward with little memory and ranges":    {Begin: short, Random: true, Limits: image.Limits{MemoryBytes: 1}},
		"forward with little memory and no ranges": {Begin: short, Limits: image.Limits{MemoryBytes: 8 << 20}, MayRefuse: true},
	}
}

// TestMutantsAreReadAsQEMUReadsThem changes a few bytes of the headers, regions, metadata and block allocation table of an
// image that QEMU made.
func TestMutantsAreReadAsQEMUReadsThem(t *testing.T) {
	content, _ := imagetest.Image(t, "vhdx", imagetest.Recipe{Options: "block_size=1M", Empty: true, Steps: []string{"io write -P 5 3M 1k", "io write -P 6 1M 1k"}})
	imagetest.Mutants{
		Format: "vhdx", Images: [][]byte{content}, Place: anyByte, Mend: seal, Count: 100, Limits: image.Limits{DiskBytes: 16 << 20},
	}.Require(t, Open, hostileWays(0), excuseNone)
}
