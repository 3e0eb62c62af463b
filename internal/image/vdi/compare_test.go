package vdi

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// recipes are images of every kind that QEMU makes.
func recipes() map[string]imagetest.Recipe {
	scattered := imagetest.RandomWrites(30)
	return map[string]imagetest.Recipe{
		"dynamic":                       {},
		"dynamic, empty":                {Empty: true},
		"dynamic, written at random":    {Empty: true, Steps: scattered},
		"dynamic, over what is there":   {Steps: scattered},
		"dynamic, written from the end": {Empty: true, Steps: []string{"io write -P 1 8M 1M", "io write -P 2 5M 2M", "io write -P 3 0 512"}},
		"static":                        {Options: "static=on"},
		"static, written at random":     {Options: "static=on", Empty: true, Steps: scattered},
	}
}

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	for name, recipe := range recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, disk := imagetest.Image(t, "vdi", recipe)
			compare(t, content, disk)
		})
	}
}

// TestReadsBlocksInAnyOrder has so many runs of blocks that little memory doesn't hold them.
func TestReadsBlocksInAnyOrder(t *testing.T) {
	order := rand.New(rand.NewPCG(5, 6)).Perm(20)
	backwards := slices.Sorted(slices.Values(order))
	slices.Reverse(backwards)
	for name, order := range map[string][]int{"at random": order, "backwards": backwards} {
		t.Run(name, func(t *testing.T) {
			content, disk := inOrder(order)
			compare(t, content, disk)
			var refused *image.Refused
			if _, err := waysForward()["forward with little memory and no ranges"].Decode(content); !errors.As(err, &refused) || refused.Reason != image.NeedsRandomAccess {
				t.Errorf("with little memory and without ranges: %v", err)
			}
		})
	}
}

// compare reads an image in every way, also by two passes of which the first was stopped.
func compare(t *testing.T, content, disk []byte) {
	ways := waysForward()
	imagetest.RequireReads(t, content, disk, Open, ways)
	const again = 256 << 10 // the table is read again together with what lies behind it
	for name, tables := range map[string]int64{"forward with ranges": again, "forward with little memory and ranges": 6 * again} {
		t.Run("in two passes, "+name, func(t *testing.T) {
			got := imagetest.RequireResume(t, ways[name], content, disk, 10, func(int64) int64 { return tables })
			if len(got.Marks) < got.Pieces-1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// begin begins with as much as every image gives.
func begin(content []byte, limits image.Limits) (image.Forward, error) {
	return Begin(content[:min(len(content), image.HeadBytes)], int64(len(content)), limits)
}

// beginUnknown is begin for an image of unknown length.
func beginUnknown(content []byte, limits image.Limits) (image.Forward, error) {
	return Begin(content[:min(len(content), image.HeadBytes)], image.Unknown, limits)
}

func waysForward() imagetest.Ways {
	little := image.Limits{MemoryBytes: 1}
	return imagetest.Ways{
		"forward":                                  {Begin: begin},
		"forward with an unknown length":           {Begin: beginUnknown},
		"forward with ranges":                      {Begin: begin, Random: true},
		"forward with little memory and ranges":    {Begin: begin, Random: true, Limits: little},
		"forward with little memory and no ranges": {Begin: begin, Limits: little, MayRefuse: true},
	}
}

// TestMutantsAreReadAsQEMUReadsThem changes a few bytes of an image's header and block map.
func TestMutantsAreReadAsQEMUReadsThem(t *testing.T) {
	content, _ := inOrder([]int{2, 0, 3, 1})
	places := []int{atVersion, atType, atMap, atData, atSectorSize, atDiskSize, atDiskSize + 4, atBlockSize, atBlocks, atLink, builtMap, builtMap + 4, builtMap + 8, builtMap + 12}
	imagetest.Mutants{
		Format: "vdi", Images: [][]byte{content}, Count: 200, Limits: image.Limits{DiskBytes: 8 << 20},
		Place: func(r *rand.Rand, _ []byte) int { return places[r.IntN(len(places))] + r.IntN(4) },
	}.Require(t, Open, waysForward(), excuseNone)
}

// excuseNone has no excuse: what one way reads all must read.
func excuseNone([]byte, imagetest.Way, error) bool { return false }
