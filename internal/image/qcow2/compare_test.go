package qcow2

import (
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	for name, recipe := range imagetest.Recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content, disk := imagetest.Image(t, "qcow2", recipe)
			imagetest.RequireReads(t, content, disk, Open, waysForward())
			t.Run("in two passes", func(t *testing.T) { requireResume(t, content, disk) })
		})
	}
}

// begin begins with a window of the given room.
func begin(r room) imagetest.Beginner {
	return func(content []byte, limits image.Limits) (image.Forward, error) {
		f, err := Begin(content[:min(len(content), image.HeadBytes)], limits)
		if err != nil {
			return nil, err
		}
		pass := f.(forward)
		pass.room = r
		return pass, nil
	}
}

// tiny is the least room with which a window works.
func tiny() room { return room{nearby: 1, ahead: 512} }

func waysForward() imagetest.Ways {
	whole, least := begin(defaultRoom()), begin(tiny())
	little, none := image.Limits{MemoryBytes: 64 << 10}, image.Limits{MemoryBytes: 2 * 10 * unitCost}
	return imagetest.Ways{
		"forward":                                  {Begin: whole},
		"forward with ranges":                      {Begin: whole, Random: true},
		"forward with a tiny window":               {Begin: least, MayRefuse: true},
		"forward with a tiny window and ranges":    {Begin: least, Random: true},
		"forward with little memory and ranges":    {Begin: least, Random: true, Limits: little},
		"forward with no memory and ranges":        {Begin: least, Random: true, Limits: none},
		"forward with little memory and no ranges": {Begin: least, Limits: little, MayRefuse: true},
	}
}

// TestMutantsAreReadAsQEMUReadsThem changes a few bytes, most of them of tables, of small images that QEMU made.
func TestMutantsAreReadAsQEMUReadsThem(t *testing.T) {
	imagetest.Mutants{
		Format: "qcow2", Images: imagetest.Seeds(t), Place: anyByte, Count: 300, Limits: image.Limits{DiskBytes: 4 << 20},
	}.Require(t, Open, hostileWays(1, 0), excuse)
}
