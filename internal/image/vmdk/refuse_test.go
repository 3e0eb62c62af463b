package vmdk

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// textOf is a descriptor file of the given kind and extents.
func textOf(kind string, lines ...string) []byte {
	return []byte("# Disk DescriptorFile\nversion=1\nCID=01234567\nparentCID=ffffffff\ncreateType=\"" + kind + "\"\n\n" + strings.Join(lines, "\n") + "\n")
}

func TestRefusesWhatItCantRead(t *testing.T) {
	const (
		join   = ": join them with 'qemu-img convert -O qcow2 DISK.vmdk OUT' where all of them are, and serve that"
		part   = "the vmdk image has no descriptor, so it is one part of a disk that is split into several files: join them with 'qemu-img convert -O qcow2 DISK.vmdk OUT', where DISK.vmdk is the descriptor that names the parts, and serve that"
		cutOff = ": it was cut off, as an interrupted upload does"
	)
	small := stream(imagetest.Disk()[:4*builtGrain], shape{})
	many := []string{`RW 1 SPARSE "a"`, `RW 1 SPARSE "b"`, `RW 1 SPARSE "c"`, `RW 1 ZERO`, `RW 1 SPARSE "d"`, `RW 1 SPARSE "e"`, `RW 1 SPARSE "f"`}
	tests := map[string]struct {
		file []byte
		want image.Refused
	}{
		"a monolithicFlat descriptor names its extent": {
			textOf("monolithicFlat", `RW 81920 FLAT "disk-flat.vmdk" 0`),
			image.Refused{Reason: image.DataFile, Message: `the vmdk file only describes a disk (of the kind "monolithicFlat") whose data lies elsewhere, in "disk-flat.vmdk", which is never opened: serve that file, which is the raw disk, in place of this one`},
		},
		"a vmfs descriptor with a path": {
			textOf("vmfs", `RW 81920 VMFS "/etc/passwd"`),
			image.Refused{Reason: image.DataFile, Message: `the vmdk file only describes a disk (of the kind "vmfs") whose data lies elsewhere, in "/etc/passwd", which is never opened: serve that file, which is the raw disk, in place of this one`},
		},
		"a twoGbMaxExtentSparse descriptor names some extents": {
			textOf("twoGbMaxExtentSparse", many...),
			image.Refused{Reason: image.DataFile, Message: `the vmdk file only describes a disk (of the kind "twoGbMaxExtentSparse") whose data lies elsewhere, in "a", "b", "c", "d", and 2 more, which is never opened` + join},
		},
		"a twoGbMaxExtentFlat descriptor with line breaks and quotes": {
			textOf("twoGbMaxExtentFlat", "RW 1 FLAT \"a\\b\" 0\r", `RDONLY 1 FLAT "\"`),
			image.Refused{Reason: image.DataFile, Message: `the vmdk file only describes a disk (of the kind "twoGbMaxExtentFlat") whose data lies elsewhere, in "a\\b", "\\", which is never opened` + join},
		},
		"a descriptor without extents": {
			textOf("custom"),
			image.Refused{Reason: image.DataFile, Message: `the vmdk file describes a disk of the kind "custom" and names no file with its data: serve a disk that is one file, made with 'qemu-img convert -O qcow2 DISK.vmdk OUT'`},
		},
		"a descriptor of a snapshot": {
			[]byte("# Disk DescriptorFile\nparentCID = 12345678\nparentFileNameHint=\"base.vmdk\"\nRW 1 VMFSSPARSE \"x\"\n"),
			image.Refused{Reason: image.BackingFile, Message: `the vmdk image holds only its differences to a parent, "base.vmdk", which is never opened: join them with 'qemu-img convert -O qcow2 DISK.vmdk OUT' and serve that`},
		},
		"an image of a snapshot": {
			build(putBytes(sector, "# Disk DescriptorFile\ncreateType=\"monolithicSparse\"\nparentCID=00000001\n\x00")),
			image.Refused{Reason: image.BackingFile, Message: `the vmdk image holds only its differences to a parent, whose name it doesn't hold, which is never opened: join them with 'qemu-img convert -O qcow2 DISK.vmdk OUT' and serve that`},
		},
		"an embedded descriptor with another file's data": {
			build(putBytes(sector, "# Disk DescriptorFile\ncreateType=\"monolithicSparse\"\nRW 1 FLAT \"/dev/sda\" 0\n\x00")),
			image.Refused{Reason: image.DataFile, Message: `the vmdk file only describes a disk (of the kind "monolithicSparse") whose data lies elsewhere, in "/dev/sda", which is never opened: serve that file, which is the raw disk, in place of this one`},
		},
		"an embedded descriptor with two extents": {
			build(putBytes(sector, "# Disk DescriptorFile\ncreateType=\"monolithicSparse\"\nRW 1 SPARSE \"a\"\nRW 1 SPARSE \"b\"\n\x00")),
			image.Refused{Reason: image.DataFile, Message: `the vmdk file only describes a disk (of the kind "monolithicSparse") whose data lies elsewhere, in "a", "b", which is never opened` + join},
		},
		"a part of a split disk":               {build(put64(28, 0)), image.Refused{Reason: image.DataFile, Message: part}},
		"a part of a split disk, as QEMU does": {build(putBytes(sector, "\x00")), image.Refused{Reason: image.DataFile, Message: part}},
		"a descriptor far away": {
			build(put64(28, 1<<60)),
			image.Refused{Reason: image.UnsupportedFormat, Message: "the vmdk image has its descriptor at sector 1152921504606846976, 2 sectors long; it is only looked for in the first 128"},
		},
		"a descriptor behind the image": {
			build(put64(28, 100)),
			image.Refused{Reason: image.Truncated, Message: "the vmdk image ends before its descriptor, 1024 bytes at offset 51200" + cutOff},
		},
		"an ESX sparse extent": {
			build(putBytes(0, "COWD")),
			image.Refused{Reason: image.UnsupportedFormat, Message: "the vmdk image is an ESX sparse extent (COWD), as snapshots on ESX are, which this version doesn't read: export the machine as OVF, or convert the disk with 'qemu-img convert -O qcow2 DISK.vmdk OUT', and serve that"},
		},
		"another magic number": {build(putBytes(0, "VMDK")), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: it doesn't begin as one"}},
		"an image that ends within its header": {
			build()[:511], image.Refused{Reason: image.Truncated, Message: "the vmdk image ends within its header, after 511 bytes"},
		},
		"version 4": {build(put32(4, 4)), image.Refused{Reason: image.UnsupportedFormat, Message: "the vmdk image has version 4; versions 1 to 3 are read"}},
		"line ends that a transfer has changed": {
			build(putBytes(73, "\r\n \r")),
			image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: the line ends in its header were changed, as a transfer as text does: transfer it as binary"},
		},
		"grains of 3 sectors": {
			build(put64(20, 3)), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its grains have 3 sectors; powers of two up to 4096 are possible"},
		},
		"grains of 2^63 sectors": {
			build(put64(20, 1<<63)), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its grains have 9223372036854775808 sectors; powers of two up to 4096 are possible"},
		},
		"tables of 2^32-1 entries": {
			build(put32(44, 1<<32-1)), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its grain tables have 4294967295 entries; 1 to 512 are possible"},
		},
		"a disk of 2^64-1 sectors": {
			build(put64(12, 1<<64-1)), image.Refused{Reason: image.TooLarge, Message: "the disk in the vmdk image has 18446744073709551615 sectors, more than the 137438953472 that are accepted"},
		},
		"a directory above the limit": {
			build(put64(12, 1<<36)),
			image.Refused{Reason: image.TooLarge, Message: "the vmdk image needs 536870912 grain tables, more than the 2097152 that are accepted: rewrite it with 'qemu-img convert -O qcow2 IN OUT'"},
		},
		"a huge directory behind the image": {
			build(put64(12, builtDisk/sector<<16)),
			image.Refused{Reason: image.Truncated, Message: "the vmdk image ends before its grain directory, 327680 bytes at offset 1536" + cutOff},
		},
		"another compression": {
			build(put32(8, flagCompressed|flagMarkers), put16(77, 2)),
			image.Refused{Reason: image.UnsupportedFormat, Message: "the vmdk image has compression algorithm 2; none (0) and deflate (1) are read"},
		},
		"a compression that contradicts the flags": {
			build(put16(77, 1)), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its compression algorithm is 1, which contradicts its flags"},
		},
		"compressed grains without markers": {
			build(put32(8, flagCompressed), put16(77, 1)),
			image.Refused{Reason: image.UnsupportedFormat, Message: "the vmdk image has compressed grains without markers, or markers without compressed grains, which no known program writes: convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that"},
		},
		"a directory at the end without markers": {
			build(put64(56, atEnd)), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its grain directory is said to lie at its end, and it has no markers"},
		},
		"a directory nowhere": {
			build(put64(56, 0)), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its grain directory lies at sector 0"},
		},
		"a directory at a place that overflows": {
			build(put64(56, 1<<63)), image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its grain directory lies at sector 9223372036854775808"},
		},
		"one table for two parts of the disk": {
			build(put64(12, 2*builtDisk/sector), put32(builtDirectory+4, builtTable/sector)),
			image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: the grain table at sector 4 stands for two parts of its disk"},
		},
		"a table behind the image": {
			build(put32(builtDirectory, 1<<32-1)),
			image.Refused{Reason: image.Truncated, Message: "the vmdk image ends before a grain table, 64 bytes at offset 2199023255040" + cutOff},
		},
		"data behind the image": {
			build(put32(builtTable, 1<<32-1)),
			image.Refused{Reason: image.Truncated, Message: "the vmdk image ends before the data, 4096 bytes at offset 2199023255040" + cutOff},
		},
		"data that is cut off": {
			build()[:builtLen-1], image.Refused{Reason: image.Truncated, Message: "the vmdk image ends before the data, 4096 bytes at offset 4096" + cutOff},
		},
		"a stream without its end": {
			small[:len(small)-sector],
			image.Refused{Reason: image.Truncated, Message: "the vmdk image doesn't end with a footer, as its header says that it does: it was cut off, as an interrupted upload does, or something was put behind it"},
		},
		"a stream with something behind it": {
			append(bytes.Clone(small), make([]byte, sector)...),
			image.Refused{Reason: image.Truncated, Message: "the vmdk image doesn't end with a footer, as its header says that it does: it was cut off, as an interrupted upload does, or something was put behind it"},
		},
		"a footer that says another size": {
			changed(small, put64(len(small)-2*sector+12, 1)),
			image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its footer contradicts its header"},
		},
		"a footer that sends back to itself": {
			changed(small, put64(len(small)-2*sector+56, atEnd)),
			image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: its footer doesn't say where its grain directory is"},
		},
		"a grain that says that it lies elsewhere": {
			changed(small, put64(builtData, 8)),
			image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: the compressed grain at 0 of the disk says that it belongs to sector 8"},
		},
		"a grain of 4 GiB": {
			changed(small, put32(builtData+8, 1<<32-1)),
			image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: the compressed grain at 0 of the disk has 4294967295 stored bytes"},
		},
		"a grain with other bytes": {
			changed(small, func(b []byte) { b[builtData+grainMarker+int(parseMarker(b[builtData:]).size)-1] ^= 1 }),
			image.Refused{Reason: image.CorruptImage, Message: "the vmdk image is corrupt: the compressed grain at 0 of the disk can't be decoded: its checksum is another one than its bytes have"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			imagetest.RequireRefused(t, test.file, test.want, 1<<20, Open, imagetest.Ways{"forward": {Begin: begin, Random: true}})
		})
	}
}

// TestForwardRefusesTablesThatContradictTheMarkers has images that read as one disk by their markers and as another one,
// or as none, by their tables.
func TestForwardRefusesTablesThatContradictTheMarkers(t *testing.T) {
	disk := imagetest.Disk()[:builtDisk]
	for i := range disk {
		disk[i] |= 1 // no grain is zero
	}
	tests := map[string]func(table int, entries []uint32){
		"a grain that no table has":      func(table int, e []uint32) { e[2] = 0 },
		"a grain in two places":          func(table int, e []uint32) { e[2] = e[1] },
		"two grains that swapped places": func(table int, e []uint32) { e[1], e[2] = e[2], e[1] },
		"a table without its grains":     func(table int, e []uint32) { clear(e) },
		"a grain that isn't there":       func(table int, e []uint32) { e[0]++ },
	}
	for name, change := range tests {
		for _, s := range []shape{{change: change}, {change: change, tablesLast: true}, {change: change, tablesLast: true, twoInOne: true}} {
			t.Run(name, func(t *testing.T) {
				_, err := imagetest.Way{Begin: begin}.Decode(stream(disk, s))
				var refused *image.Refused
				if !errors.As(err, &refused) || refused.Reason != image.CorruptImage {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

func changed(b []byte, change func([]byte)) []byte {
	b = bytes.Clone(b)
	change(b)
	return b
}

// TestReadsStrangeButPossibleImages has images that QEMU would not write, and that contradict nothing.
func TestReadsStrangeButPossibleImages(t *testing.T) {
	at := func(grain int) []byte {
		disk := make([]byte, builtDisk)
		copy(disk[grain*builtGrain:], bytes.Repeat([]byte("data"), builtGrain/4))
		return disk
	}
	both := at(3)
	copy(both, at(0)[:builtGrain])
	tests := map[string]struct {
		file []byte
		want []byte
	}{
		"one stored grain":                     {build(), at(3)},
		"no table":                             {build(put32(builtDirectory, 0)), at(20)},
		"a disk of 0 bytes":                    {build(put64(12, 0), put64(56, 0)), nil},
		"a disk that ends within a grain":      {build(put64(12, 25)), at(3)[:25*sector]},
		"one grain in two places":              {build(put32(builtTable, builtData/sector)), both},
		"a zero grain":                         {build(put32(8, flagZeroGrains), put32(builtTable, zeroGrain)), at(3)},
		"an overhead that makes no sense":      {build(put64(64, 1<<64-1)), at(3)},
		"a redundant directory that is wrong":  {build(put32(8, 3), put64(48, 1<<60)), at(3)},
		"a disk that wasn't closed":            {build(putBytes(72, "\x01")), at(3)},
		"a directory behind the data":          {append(build(put64(56, builtLen/sector)), build()[builtDirectory:builtDirectory+sector]...), at(3)},
		"a table behind the data":              {append(build(put32(builtDirectory, builtLen/sector)), build()[builtTable:builtTable+sector]...), at(3)},
		"a descriptor that goes on for longer": {build(put64(36, 127)), at(3)},
		"a stream of 0 bytes":                  {stream(nil, shape{}), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ways := waysForward()
			imagetest.RequireReads(t, test.file, test.want, Open, imagetest.Ways{
				"forward": ways["forward"], "forward with ranges": ways["forward with ranges"], "forward with no memory and ranges": {Begin: begin, Random: true, Limits: image.Limits{MemoryBytes: 1}},
			})
		})
	}
}
