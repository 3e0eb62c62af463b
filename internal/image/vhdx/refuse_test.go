package vhdx

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"unicode/utf16"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// entryOf is where the entry of a known metadata item lies in what build makes.
func entryOf(i int) int { return builtMetadata + 32 + 32*i }

// locator is a parent locator with one entry.
func locator(key, value string) string {
	b := make([]byte, 32)
	put16(18, 1)(b)
	k, v := utf16.Encode([]rune(key)), utf16.Encode([]rune(value))
	put32(20, 32)(b)
	put32(24, uint32(32+2*len(k)))(b)
	put16(28, uint16(2*len(k)))(b)
	put16(30, uint16(2*len(v)))(b)
	for _, u := range append(k, v...) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

// withParent makes an image a differencing one.
func withParent(b []byte) {
	const at = 8 << 10 // behind the items
	body := locator("relative_path", `..\base.vhdx`)
	id := parentLocator().id
	put16(builtMetadata+10, 6)(b)
	putBytes(entryOf(5), string(id[:]))(b)
	put32(entryOf(5)+16, metadataLen+at)(b)
	put32(entryOf(5)+20, uint32(len(body)))(b)
	putBytes(builtItems+at, body)(b)
	put32(builtItems+4, hasParent)(b)
}

func TestRefusesWhatItCantRead(t *testing.T) {
	isCorrupt := func(message string, args ...any) image.Refused {
		return image.Refused{Reason: image.CorruptImage, Message: "the vhdx image is corrupt: " + fmt.Sprintf(message, args...)}
	}
	isCut := func(what string, n, offset int) image.Refused {
		return image.Refused{Reason: image.Truncated, Message: fmt.Sprintf("the vhdx image ends before %s, %d bytes at offset %d: it was cut off, as an interrupted upload does", what, n, offset)}
	}
	const convert = "convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that"
	unsealed := func(at ...int) []byte {
		b := build()
		for _, at := range at {
			b[at]++
		}
		return b
	}
	tests := map[string]struct {
		content []byte
		want    image.Refused
	}{
		"another signature":                      {build(putBytes(0, "vhdyfile")), isCorrupt("it doesn't begin as one")},
		"an image that ends within its headers":  {build()[:100<<10], isCut("the end of its header section", sectionLen, 0)},
		"two headers with wrong checksums":       {unsealed(firstHeader+100, secondHeader+100), isCorrupt("neither of its headers is whole: their checksums don't fit")},
		"two headers that contradict each other": {build(put64(firstHeader+8, 8), put32(firstHeader+68, 0)), isCorrupt("its two headers contradict each other")},
		"version 2":                              {build(both(func(at int) func([]byte) { return put16(at+66, 2) }, firstHeader, secondHeader)), image.Refused{Reason: image.UnsupportedFormat, Message: "the vhdx image has version 2; version 1 is read"}},
		"a log that is not empty": {build(putBytes(secondHeader+48, "x")), image.Refused{Reason: image.UnsupportedFormat, Message: "the vhdx image was not closed: its log may hold changes that are not carried out yet, and replaying them is not served by this version: " +
			"close the machine or the tool that has it open, carry them out with 'qemu-img check -r all FILE' (or by mounting the disk once in Windows), and serve it again"}},
		"a log within the header section":            {build(put64(secondHeader+72, 64<<10)), isCorrupt("its log lies at offset 65536 and is 1048576 bytes long")},
		"a log where the metadata is":                {build(put64(secondHeader+72, builtMetadata)), isCorrupt("two of its regions overlap at offset 2097152")},
		"two region tables with wrong checksums":     {unsealed(firstRegion+100, secondRegion+100), isCorrupt("neither of its region tables is whole: their checksums don't fit")},
		"a region table of 4294967295 entries":       {build(put32(firstRegion+8, 1<<32-1)), isCorrupt("its region table has 4294967295 entries; 2047 are possible")},
		"no block allocation table":                  {build(put32(firstRegion+8, 0)), isCorrupt("its region table lacks the block allocation table or the metadata")},
		"the same region twice":                      {build(func(b []byte) { putRegion(b[firstRegion+48:], batRegion(), builtMetadata) }), isCorrupt("its region table has the same region twice")},
		"a region within a MiB":                      {build(put64(firstRegion+32, builtBAT+512)), isCorrupt("a region lies at offset %d and is %d bytes long", builtBAT+512, mib)},
		"a region whose end is no offset":            {build(put64(firstRegion+32, 1<<63-mib)), isCorrupt("a region lies at offset %d and is %d bytes long", uint64(1<<63-mib), mib)},
		"an unknown region that is required":         {build(putBytes(firstRegion+16, "unknown region!!")), image.Refused{Reason: image.UnsupportedFormat, Message: "the vhdx image needs a region that this version doesn't know (756e6b6e6f776e20726567696f6e2121): " + convert}},
		"metadata behind the image":                  {build(put64(firstRegion+64, 1<<40)), isCut("its metadata table", metadataLen, 1<<40)},
		"a metadata table that is none":              {build(putBytes(builtMetadata, "x")), isCorrupt("its metadata table is none")},
		"a metadata table of 65535 entries":          {build(put16(builtMetadata+10, 1<<16-1)), isCorrupt("its metadata table is none")},
		"unknown metadata that is required":          {build(putBytes(entryOf(4), "unknown metadata")), image.Refused{Reason: image.UnsupportedFormat, Message: "the vhdx image needs metadata that this version doesn't know (756e6b6e6f776e206d65746164617461): " + convert}},
		"metadata without the disk's size":           {build(putBytes(entryOf(1), "unknown metadata"), put32(entryOf(1)+24, 0)), isCorrupt("its metadata lacks the virtual disk size")},
		"a disk's size of 4 bytes":                   {build(put32(entryOf(1)+20, 4)), isCorrupt(`its metadata item "virtual disk size" is 4 bytes long and lies at 65552 of its region, or is there twice`)},
		"a disk's size behind its region":            {build(put32(entryOf(1)+16, mib)), isCorrupt(`its metadata item "virtual disk size" is 8 bytes long and lies at 1048576 of its region, or is there twice`)},
		"a parent is named and not opened":           {build(withParent), image.Refused{Reason: image.BackingFile, Message: `the vhdx image holds only its differences to a parent, "..\\base.vhdx", which is never opened: merge them (Merge-VHD in Windows) or flatten it with 'qemu-img convert -O qcow2 IN OUT', and serve that`}},
		"a parent without a name":                    {build(put32(builtItems+4, hasParent)), image.Refused{Reason: image.BackingFile, Message: "the vhdx image holds only its differences to a parent, whose name is not where it should be, which is never opened: merge them (Merge-VHD in Windows) or flatten it with 'qemu-img convert -O qcow2 IN OUT', and serve that"}},
		"blocks of 3 MiB":                            {build(put32(builtItems, 3*mib)), isCorrupt("its blocks have 3145728 bytes; a power of two from 1048576 to 268435456 is possible")},
		"blocks of 0 bytes":                          {build(put32(builtItems, 0)), isCorrupt("its blocks have 0 bytes; a power of two from 1048576 to 268435456 is possible")},
		"sectors of 0 bytes":                         {build(put32(builtItems+48, 0)), isCorrupt("its sectors have 0 bytes; 512 and 4096 are possible")},
		"a disk of 2^64-512 bytes":                   {build(put64(builtItems+16, 1<<64-512)), isCorrupt("its disk has 18446744073709551104 bytes")},
		"a disk of half a sector":                    {build(put64(builtItems+16, 256)), isCorrupt("its disk has 256 bytes")},
		"a table above the limit":                    {build(put64(builtItems+16, maxDisk)), image.Refused{Reason: image.TooLarge, Message: "the vhdx image needs a block allocation table of 537001976 bytes, more than the 33554432 that are accepted: make it with larger blocks ('qemu-img convert -O vhdx -o block_size=32M IN OUT')"}},
		"a table that is too small for the disk":     {build(put64(builtItems+16, 1<<40)), isCorrupt("its block allocation table has 1048576 bytes, and its disk needs 8390648")},
		"a table behind the image":                   {build(put64(firstRegion+32, 1<<40)), isCut("its block allocation table", 16, 1<<40)},
		"a huge table behind the image":              {build(put64(firstRegion+32, 1<<40), put32(firstRegion+40, 1<<30), put64(builtItems+16, 1<<40)), isCut("its block allocation table", 8390648, 1<<40)},
		"a block that is partly in a parent":         {build(put64(builtBAT, 5*mib|statePartiallyPresent)), isCorrupt("block 0 of its disk is said to be partly in a parent, and it has none")},
		"a block of an unknown state":                {build(put64(builtBAT, 5*mib|4)), isCorrupt("block 0 of its disk has the state 4, which doesn't exist")},
		"a block nowhere":                            {build(put64(builtBAT, statePresent)), isCorrupt("block 0 of its disk lies at 0 MiB of the image")},
		"a block where no offset is":                 {build(put64(builtBAT, 1<<64-mib|statePresent)), isCorrupt("block 0 of its disk lies at 17592186044415 MiB of the image")},
		"a block that lies where the other one is":   {build(put64(builtBAT, builtData|statePresent)), isCorrupt("block 1 of its disk lies at offset 4194304, where something else is")},
		"a block that lies where the log is":         {build(put64(builtBAT, mib|statePresent)), isCorrupt("block 0 of its disk lies at offset 1048576, where something else is")},
		"a block that goes on where the metadata is": {build(put32(builtItems, 2*mib), put32(secondHeader+68, 0), put64(secondHeader+72, 0), put64(builtBAT, mib|statePresent)), isCorrupt("block 0 of its disk lies at offset 1048576, where something else is")},
		"a block behind the image":                   {build(put64(builtBAT, 1<<40|statePresent)), isCut("block 0 of its disk", mib, 1<<40)},
		"a block that is cut off":                    {build()[:builtLen-1], isCut("block 1 of its disk", mib-512, builtData)},
		"a block that is cut off at its beginning":   {build()[:builtData], isCut("block 1 of its disk", mib-512, builtData)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			imagetest.RequireRefused(t, test.content, test.want, 3<<20, Open, waysForward())
		})
	}
}

func TestRefusesADiskAboveTheLimit(t *testing.T) {
	limits := image.Limits{DiskBytes: builtDisk - 1}
	want := image.Refused{Reason: image.TooLarge, Message: "the disk in the vhdx image has 2096640 bytes, more than the 2096639 bytes that are accepted"}
	var got *image.Refused
	if _, err := Begin(build(), builtLen, limits); !errors.As(err, &got) || *got != want {
		t.Errorf("got %v", err)
	}
}

// TestReadsStrangeButPossibleImages has images that QEMU would not write, and that contradict nothing.
func TestReadsStrangeButPossibleImages(t *testing.T) {
	zeros := make([]byte, builtDisk)
	want := append(make([]byte, mib), bytes.Repeat([]byte("data"), mib/4)[:mib-512]...)
	spoiled := func(at int) []byte {
		b := build()
		b[at+100]++
		return b
	}
	tests := map[string]struct {
		content []byte
		want    []byte
	}{
		"one block":                            {build(), want},
		"the older header is spoiled":          {spoiled(firstHeader), want},
		"the newer header is spoiled":          {spoiled(secondHeader), want},
		"the first region table is spoiled":    {spoiled(firstRegion), want},
		"the second region table is spoiled":   {spoiled(secondRegion), want},
		"both headers are the same":            {build(put64(firstHeader+8, 8)), want},
		"the older header has a log to replay": {build(putBytes(firstHeader+48, "x")), want},
		"no log":                               {build(put32(secondHeader+68, 0), put64(secondHeader+72, 0)), want},
		"sectors of 4 KiB":                     {build(put32(builtItems+48, 4096), put64(builtItems+16, 2*mib-4096)), want[:2*mib-4096]},
		"an unknown region":                    {build(put32(firstRegion+8, 3), func(b []byte) { putRegion(b[firstRegion+80:], guid{1}, 8*mib); put32(firstRegion+80+28, 0)(b) }), want},
		"unknown metadata":                     {build(put16(builtMetadata+10, 6), putBytes(entryOf(5), "unknown metadata")), want},
		"a block that is undefined":            {build(put64(builtBAT+8, builtData|stateUndefined)), zeros},
		"a block that is zero":                 {build(put64(builtBAT+8, builtData|stateZero)), zeros},
		"a block that is unmapped":             {build(put64(builtBAT+8, builtData|stateUnmapped)), zeros},
		"reserved bits in an entry":            {build(put64(builtBAT+8, builtData|statePresent|0xffff8)), want},
		"a disk of 0 bytes":                    {build(put64(builtItems+16, 0)), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			imagetest.RequireReads(t, test.content, test.want, Open, waysForward())
		})
	}
}

// TestBeginKnowsTheDiskAsSoonAsItCan asks for as much of the beginning as Wants says.
func TestBeginKnowsTheDiskAsSoonAsItCan(t *testing.T) {
	tests := map[string]struct {
		content []byte
		size    int64
		wants   int
		refusal image.Reason
	}{
		"an image":                      {content: build(), size: builtDisk, wants: builtItems + 64 + 4},
		"an image with its tables last": {content: tablesLast(append(build(), make([]byte, 4*mib)...)), size: image.Unknown, wants: sectionLen},
		"an image with a parent":        {content: build(withParent), refusal: image.BackingFile, wants: builtItems + 9<<10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			have := image.HeadBytes
			for {
				want := Wants(test.content[:have])
				if want == 0 {
					break
				}
				if want <= have {
					t.Fatalf("%d bytes are wanted where there are %d", want, have)
				}
				have = want
			}
			if have > test.wants {
				t.Errorf("%d bytes were wanted", have)
			}
			f, err := Begin(test.content[:have], int64(len(test.content)), image.Limits{})
			var refused *image.Refused
			switch {
			case test.refusal != "":
				if !errors.As(err, &refused) || refused.Reason != test.refusal {
					t.Errorf("got %v", err)
				}
			case err != nil || f.Size() != test.size:
				t.Errorf("%v, %v", f, err)
			}
		})
	}
}
