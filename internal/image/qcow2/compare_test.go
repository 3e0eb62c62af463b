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

// requireResume stops passes and starts others at their marks.
func requireResume(t *testing.T, content, disk []byte) {
	ways := waysForward()
	for _, name := range []string{"forward with ranges", "forward with a tiny window and ranges"} {
		got := imagetest.RequireResume(t, ways[name], content, disk, 5, besides(t, content))
		if got.Marks < got.Pieces/8 || got.Pieces > 3 && got.Last < int64(len(content))/3 {
			t.Errorf("%s: %+v in an image of %d bytes", name, got, len(content))
		}
	}
	// Tables are read again and again with so little memory.
	imagetest.RequireResume(t, ways["forward with little memory and ranges"], content, disk, 2, func(int64) int64 { return 1 << 40 })
}

// besides answers how many bytes a pass over an image may read besides what lies behind its start: its tables, with the
// gaps between them that are not worth a second request, and what tables behind the start map before it.
func besides(t *testing.T, content []byte) func(start int64) int64 {
	h, err := parseHeader(content[:min(len(content), image.HeadBytes)], image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	l1, err := h.parseL1(content[h.l1Offset:][:h.l1Entries*8])
	if err != nil {
		t.Fatal(err)
	}
	return func(start int64) int64 {
		more := int64(h.l1Entries) * 8
		for number, offset := range l1 {
			if offset == 0 {
				continue
			}
			more += h.clusterSize() + maxGap
			if offset < start || h.snapshots {
				continue
			}
			err := h.parseL2(content[offset:][:h.clusterSize()], int64(number)*h.l2Covers(), func(u unit) error {
				if u.offset < start {
					more += int64(u.stored)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return more
	}
}

// TestMutantsAreReadAsQEMUReadsThem changes a few bytes, most of them of tables, of small images that QEMU made.
func TestMutantsAreReadAsQEMUReadsThem(t *testing.T) {
	imagetest.Mutants{
		Format: "qcow2", Images: imagetest.Seeds(t), Place: anyByte, Count: 300, Limits: image.Limits{DiskBytes: 4 << 20},
	}.Require(t, Open, hostileWays(1, 0), excuse)
}
