package vhd

import (
	"fmt"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

func TestRefusesWhatItCantRead(t *testing.T) {
	isCorrupt := func(message string, args ...any) image.Refused {
		return image.Refused{Reason: image.CorruptImage, Message: "the vhd image is corrupt: " + fmt.Sprintf(message, args...)}
	}
	isCut := func(what string, n, offset int) image.Refused {
		return image.Refused{Reason: image.Truncated, Message: fmt.Sprintf("the vhd image ends before %s, %d bytes at offset %d: it was cut off, as an interrupted upload does", what, n, offset)}
	}
	unsealed := func(at int) []byte {
		b := build()
		b[at]++
		return b
	}
	isLinked := func(parent string) image.Refused {
		return image.Refused{Reason: image.BackingFile, Message: "the vhd image holds only its differences to a parent, " + parent + ", which is never opened: merge them (Merge-VHD in Windows, or 'VBoxManage clonemedium') and serve that"}
	}
	tests := map[string]struct {
		content []byte
		want    image.Refused
	}{
		"an image that ends within its footer":     {build()[:500], isCut("the end of its footer's copy", footerLen, 0)},
		"an image that ends within its header":     {build()[:1535], isCut("its header", headerLen, builtHeader)},
		"a footer's copy with a wrong checksum":    {unsealed(200), isCorrupt("the checksum of its footer doesn't fit")},
		"a header with a wrong checksum":           {unsealed(builtHeader + 200), isCorrupt("its header is none, or the checksum doesn't fit")},
		"another header":                           {build(putBytes(builtHeader, "cyspar")), isCorrupt("its header is none, or the checksum doesn't fit")},
		"version 2":                                {build(put32(12, 2<<16)), image.Refused{Reason: image.UnsupportedFormat, Message: "the vhd image has version 2; version 1 is read"}},
		"a header of version 2":                    {build(put32(builtHeader+24, 2<<16)), image.Refused{Reason: image.UnsupportedFormat, Message: "the vhd image's header has version 2; version 1 is read"}},
		"a fixed one that begins as a dynamic one": {build(put32(60, typeFixed)), isCorrupt("it begins as a dynamic one and says that its type is 2")},
		"a parent is named and not opened":         {build(put32(60, typeDifferencing), putBytes(builtHeader+64, "\x00b\x00a\x00s\x00e")), isLinked(`"base"`)},
		"a parent without a name":                  {build(put32(60, typeDifferencing)), isLinked("whose name it doesn't hold")},
		"a header far away":                        {build(put64(16, 1<<40)), isCorrupt("its header lies at offset 1099511627776")},
		"a header that is the footer":              {build(put64(16, 0)), isCorrupt("its header lies at offset 0")},
		"blocks of 0 bytes":                        {build(put32(builtHeader+32, 0)), isCorrupt("its blocks have 0 bytes; a power of two from 512 to 1073741824 is possible")},
		"blocks of 3 KiB":                          {build(put32(builtHeader+32, 3072)), isCorrupt("its blocks have 3072 bytes; a power of two from 512 to 1073741824 is possible")},
		"a disk of half a sector":                  {build(put64(48, 256)), isCorrupt("its disk has 256 bytes")},
		"a disk of 2^64-512 bytes":                 {build(put64(48, 1<<64-512)), isCorrupt("its disk has 18446744073709551104 bytes")},
		"a disk above the limit":                   {build(put64(48, 1<<46+512)), image.Refused{Reason: image.TooLarge, Message: "the disk in the vhd image has 70368744178176 bytes, more than the 70368744177664 bytes that are accepted"}},
		"a table above the limit":                  {build(put64(48, 1<<40), put32(builtHeader+28, 1<<32-1)), image.Refused{Reason: image.TooLarge, Message: "the vhd image's disk has 268435456 blocks, more than the 4194304 that are accepted: convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that"}},
		"a table that is too small for the disk":   {build(put32(builtHeader+28, 2)), isCorrupt("its block allocation table has 2 entries, and its disk needs 3")},
		"a table within a sector":                  {build(put64(builtHeader+16, 1537)), isCorrupt("its block allocation table lies at offset 1537")},
		"a table behind the image":                 {build(put64(builtHeader+16, 1<<40)), isCut("its block allocation table", 12, 1<<40)},
		"a huge table behind the image":            {build(put64(48, 1<<34), put32(builtHeader+28, 1<<32-1)), isCut("its block allocation table", 16<<20, builtTable)},
		"two blocks in one place":                  {build(put32(builtTable+4, builtThird/sector)), isCorrupt("block 2 of its disk lies at offset 2048, where something else is")},
		"a block that goes on where another is":    {build(put32(builtTable+4, builtThird/sector+1)), isCorrupt("block 1 of its disk lies at offset 2560, where something else is")},
		"a block where the footer's copy is":       {build(put32(builtTable+4, 0)), isCorrupt("block 1 of its disk lies at offset 0, where something else is")},
		"a block where the header is":              {build(put32(builtTable+4, 2)), isCorrupt("block 1 of its disk lies at offset 1024, where something else is")},
		"a block where the table is":               {build(put32(builtTable+4, 3)), isCorrupt("block 1 of its disk lies at offset 1536, where something else is")},
		"a block behind the image":                 {build(put32(builtTable+4, 1<<31)), isCut("block 1 of its disk", builtBlock, 1<<40+512)},
		"a block that is cut off":                  {build()[:builtLen-footerLen-1], isCut("block 0 of its disk", builtBlock, builtFirst+512)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			imagetest.RequireRefused(t, test.content, test.want, 1<<20, open, hostileWays())
		})
	}
}

// TestReadsStrangeButPossibleImages has images that QEMU would not write, and that contradict nothing.
func TestReadsStrangeButPossibleImages(t *testing.T) {
	tests := map[string]struct {
		content []byte
		want    []byte
	}{
		"a small image":          {build(), builtWant()},
		"no footer at the end":   {build()[:builtLen-footerLen], builtWant()},
		"the table at the end":   {tableLast(build()), builtWant()},
		"more entries than used": {build(put32(builtHeader+28, 1<<32-1)), builtWant()},
		"no block":               {build(put32(builtTable, unused), put32(builtTable+8, unused)), make([]byte, builtDisk)},
		"a disk of 0 bytes":      {build(put64(48, 0), put64(builtHeader+16, 1<<20)), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			compare(t, test.content, test.want)
		})
	}
}
