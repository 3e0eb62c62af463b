package vdi

import (
	"fmt"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

func TestRefusesWhatItCantRead(t *testing.T) {
	isCorrupt := func(message string) image.Refused {
		return image.Refused{Reason: image.CorruptImage, Message: "the vdi image is corrupt: " + message}
	}
	isCut := func(what string, n, offset int) image.Refused {
		return image.Refused{Reason: image.Truncated, Message: fmt.Sprintf("the vdi image ends before %s, %d bytes at offset %d: it was cut off, as an interrupted upload does", what, n, offset)}
	}
	unread := func(message string) image.Refused {
		return image.Refused{Reason: image.UnsupportedFormat, Message: "the vdi image has " + message}
	}
	linkedTo := func(id string) image.Refused {
		return image.Refused{Reason: image.BackingFile, Message: "the vdi image holds only its differences to another image, {" + id + "}, which is never opened: join them with 'VBoxManage clonemedium' and serve that"}
	}
	const (
		nobody  = "00000000-0000-0000-0000-000000000000"
		convert = ": convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that"
	)
	tests := map[string]struct {
		file []byte
		want image.Refused
	}{
		"an image that ends within its header": {build()[:headerLen-1], image.Refused{Reason: image.Truncated, Message: "the vdi image ends within its header, after 455 bytes"}},
		"another signature":                    {build(put32(atSignature, 0)), isCorrupt("it doesn't begin as one")},
		"version 2.0":                          {build(put32(atVersion, 2<<16)), unread("version 2.0; version 1.1 is read")},
		"an undo image":                        {build(put32(atType, typeUndo)), linkedTo(nobody)},
		"an image of differences":              {build(put32(atType, typeDifferences), putBytes(atLink, "\x78\x56\x34\x12\x34\x12\x78\x56\xab\xcd0123456")), linkedTo("12345678-1234-5678-abcd-303132333435")},
		"a dynamic image with a link":          {build(put32(atLink, 1)), linkedTo("00000001" + nobody[8:])},
		"a static image with a parent":         {build(put32(atType, typeStatic), put32(atParent, 1)), linkedTo(nobody)},
		"type 5":                               {build(put32(atType, 5)), unread("type 5; dynamic (1) and static (2) ones are read")},
		"sectors of 4096 bytes":                {build(put32(atSectorSize, 4096)), unread("sectors of 4096 bytes; 512 are read")},
		"blocks of 0 bytes":                    {build(put32(atBlockSize, 0)), unread("blocks of 0 bytes with 0 more; 1048576 and 0 are read: convert it with 'qemu-img convert -O qcow2 IN OUT' or VirtualBox's own clone, and serve that")},
		"blocks with more in front":            {build(put32(atExtra, 512)), unread("blocks of 1048576 bytes with 512 more; 1048576 and 0 are read: convert it with 'qemu-img convert -O qcow2 IN OUT' or VirtualBox's own clone, and serve that")},
		"a disk of 2^64-1 bytes":               {build(put64(atDiskSize, 1<<64-1)), image.Refused{Reason: image.TooLarge, Message: "the disk in the vdi image has 18446744073709551615 bytes, more than the 70368744177664 bytes that are accepted"}},
		"a map above the limit":                {build(put32(atBlocks, 1<<31)), image.Refused{Reason: image.TooLarge, Message: "the vdi image has a map of 2147483648 blocks, more than the 8388608 that are accepted" + convert}},
		"a map that is too small":              {build(put32(atBlocks, 2)), isCorrupt("its map has 2 blocks, and its disk needs 3")},
		"a map behind the image":               {build(put32(atMap, 1<<20), put32(atData, 1<<21)), isCut("its block map", 12, 1<<20)},
		"a huge map behind the image":          {build(put64(atDiskSize, 1<<40), put32(atBlocks, 1<<20), put32(atData, 1<<23)), isCut("its block map", 4<<20, builtMap)},
		"a map within a sector":                {build(put32(atMap, 513)), isCorrupt("its block map lies at offset 513")},
		"a map in the header":                  {build(put32(atMap, 0)), isCorrupt("its block map lies at offset 0")},
		"data in the map":                      {build(put32(atData, builtMap)), isCorrupt("its data lies at offset 512, and its block map of 12 bytes at 512")},
		"data in the header":                   {build(put32(atData, 0)), isCorrupt("its data lies at offset 0, and its block map of 12 bytes at 512")},
		"data within a sector":                 {build(put32(atData, builtData+1)), isCorrupt("its data lies at offset 1025, and its block map of 12 bytes at 512")},
		"a block where there is no room":       {build(put32(builtMap, firstHole-1)), isCorrupt("block 0 of its disk is stored as number 4294967293 of 3")},
		"two blocks in one place":              {append(build(put32(builtMap, 0)), make([]byte, blockSize)...), isCorrupt("block 2 of its disk lies at offset 1024, where another one is")},
		"a block behind the image":             {build(put32(builtMap, 2)), isCut("block 0 of its disk", blockSize, builtData+2*blockSize)},
		"a block that is cut off":              {build()[:builtLen-1], isCut("block 2 of its disk", 1024, builtData)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			imagetest.RequireRefused(t, test.file, test.want, 1<<20, Open, waysForward())
		})
	}
}

// TestReadsStrangeButPossibleImages has images that QEMU would not write, and that contradict nothing.
func TestReadsStrangeButPossibleImages(t *testing.T) {
	zeros := make([]byte, builtDisk)
	for name, test := range map[string]struct{ file, want []byte }{
		"one stored block":                     {build(), builtWant()},
		"a map that goes on behind the disk":   {build(put32(atBlocks, 128)), builtWant()},
		"no block, and a count that is wrong":  {build(put32(builtMap+8, firstHole), put32(0x184, 77)), zeros},
		"a disk of 0 bytes":                    {build(put64(atDiskSize, 0), put32(atBlocks, 0), put32(atMap, 1<<20)), nil},
		"a disk that ends within a sector":     {build(put64(atDiskSize, builtDisk-512-3)), builtWant()[:builtDisk-512]},
		"a static image that is dynamic":       {build(put32(atType, typeStatic)), builtWant()},
		"a gap between the map and the blocks": {append(build(put32(atData, builtLen)), build()[builtData:]...), builtWant()},
	} {
		t.Run(name, func(t *testing.T) { compare(t, test.file, test.want) })
	}
}
