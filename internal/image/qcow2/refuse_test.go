package qcow2

import (
	"bytes"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

func TestRefusesWhatItCantRead(t *testing.T) {
	const flatten = ": flatten it with 'qemu-img convert -O qcow2 IN OUT' and serve that"
	tests := map[string]struct {
		file []byte
		want image.Refused
	}{
		"an image that ends within its header": {
			file: build()[:71],
			want: image.Refused{Reason: image.Truncated, Message: "the qcow2 image ends within its header, after 71 bytes"},
		},
		"another magic number": {
			file: build(put32(0, 0x514649fa)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: it doesn't begin as one"},
		},
		"version 4": {
			file: build(put32(4, 4)),
			want: image.Refused{Reason: image.UnsupportedFormat, Message: "the qcow2 image has version 4; versions 2 and 3 are read"},
		},
		"clusters of 256 bytes": {
			file: build(put32(20, 8)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: its clusters have 2^8 bytes; 2^9 to 2^21 are possible"},
		},
		"clusters of 2^4294967295 bytes": {
			file: build(put32(20, 1<<32-1)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: its clusters have 2^4294967295 bytes; 2^9 to 2^21 are possible"},
		},
		"a backing file is named and not opened": {
			file: build(put64(8, 300), put32(16, 11), putBytes(300, "/etc/passwd")),
			want: image.Refused{Reason: image.BackingFile, Message: `the qcow2 image holds only its differences to a backing file, "/etc/passwd", which is never opened` + flatten},
		},
		"a backing file with line breaks in its name is quoted": {
			file: build(put64(8, 300), put32(16, 4), putBytes(300, "a\nb\"")),
			want: image.Refused{Reason: image.BackingFile, Message: `the qcow2 image holds only its differences to a backing file, "a\nb\"", which is never opened` + flatten},
		},
		"a backing file whose name lies behind the image": {
			file: build(put64(8, 1<<63), put32(16, 1000)),
			want: image.Refused{Reason: image.BackingFile, Message: `the qcow2 image holds only its differences to a backing file, whose name is not where it should be, which is never opened` + flatten},
		},
		"an external data file is named and not opened": {
			file: build(put64(72, featureDataFile), put32(104, extensionDataFile), put32(108, 8), putBytes(112, "data.raw")),
			want: image.Refused{Reason: image.DataFile, Message: `the qcow2 image keeps its data in an external file, "data.raw", which is never opened: join them with 'qemu-img convert -O qcow2 IN OUT' and serve that`},
		},
		"an external data file without a name": {
			file: build(put64(72, featureDataFile)),
			want: image.Refused{Reason: image.DataFile, Message: `the qcow2 image keeps its data in an external file, whose name it doesn't hold, which is never opened: join them with 'qemu-img convert -O qcow2 IN OUT' and serve that`},
		},
		"one table for two parts of the disk": {
			file: build(put64(24, 2*builtDisk), put32(36, 2), put64(builtL1+8, builtL2)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: the L2 table at offset 1024 stands for two parts of its disk"},
		},
		"AES": {
			file: build(put32(32, 1)),
			want: image.Refused{Reason: image.Encrypted, Message: "the qcow2 image is encrypted (AES): decrypt it with 'qemu-img convert' and serve that"},
		},
		"LUKS": {
			file: build(put32(32, 2)),
			want: image.Refused{Reason: image.Encrypted, Message: "the qcow2 image is encrypted (LUKS): decrypt it with 'qemu-img convert' and serve that"},
		},
		"the corrupt bit": {
			file: build(put64(72, featureCorrupt)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is marked as corrupt: mend it with 'qemu-img check -r all' and serve it again"},
		},
		"an unknown feature is called by its name in the image": {
			file: build(put64(72, 1<<40|1<<41), put32(104, extensionFeatures), put32(108, 48), putBytes(112, "\x00\x28teleportation")),
			want: image.Refused{Reason: image.UnsupportedFormat, Message: `the qcow2 image needs features that this version doesn't know ("teleportation", bit 41): convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that`},
		},
		"an unknown compression type": {
			file: build(put64(72, featureCompression), put32(100, 112), putBytes(104, "\x02")),
			want: image.Refused{Reason: image.UnsupportedFormat, Message: "the qcow2 image has compression type 2, which is not served by this version; zlib (0) and zstd (1) are"},
		},
		"a compression type that contradicts the feature bits": {
			file: build(put32(100, 112), putBytes(104, "\x01")),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: its compression type is 1, which contradicts its feature bits"},
		},
		"subclusters in clusters that are too small": {
			file: build(put64(72, featureExtendedL2)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: it has subclusters, and clusters of 2^9 bytes, which are too small for them"},
		},
		"a disk of 8 EiB": {
			file: build(put64(24, 1<<63-1)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: its disk has 9223372036854775807 bytes"},
		},
		"a disk above the limit": {
			file: build(put64(24, 1<<50)),
			want: image.Refused{Reason: image.TooLarge, Message: "the disk in the qcow2 image has 1125899906842624 bytes, more than the 70368744177664 bytes that are accepted"},
		},
		"an L1 table above the limit": {
			file: build(put64(24, 1<<45), put32(36, 1<<31)),
			want: image.Refused{Reason: image.TooLarge, Message: "the qcow2 image needs an L1 table of 1073741824 entries, more than the 4194304 that are accepted: make it with larger clusters ('qemu-img convert -O qcow2 -o cluster_size=64k IN OUT')"},
		},
		"an L1 table that is too small for the disk": {
			file: build(put64(24, builtDisk+1)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: its L1 table has 1 entries, and its disk needs 2"},
		},
		"an L1 table within a cluster": {
			file: build(put64(40, 513)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: its L1 table lies at offset 513"},
		},
		"an L1 table behind the image": {
			file: build(put64(40, 1<<40)),
			want: image.Refused{Reason: image.Truncated, Message: "the qcow2 image ends before its L1 table, 8 bytes at offset 1099511627776: it was cut off, as an interrupted upload does"},
		},
		"a huge L1 table behind the image": {
			file: build(put64(24, builtDisk<<20), put32(36, 1<<20)),
			want: image.Refused{Reason: image.Truncated, Message: "the qcow2 image ends before its L1 table, 8388608 bytes at offset 512: it was cut off, as an interrupted upload does"},
		},
		"an L2 table behind the image": {
			file: build(put64(builtL1, 1<<40)),
			want: image.Refused{Reason: image.Truncated, Message: "the qcow2 image ends before an L2 table, 512 bytes at offset 1099511627776: it was cut off, as an interrupted upload does"},
		},
		"data behind the image": {
			file: build(put64(builtL2, 1<<40)),
			want: image.Refused{Reason: image.Truncated, Message: "the qcow2 image ends before the data, 512 bytes at offset 1099511627776: it was cut off, as an interrupted upload does"},
		},
		"data that is cut off": {
			file: build()[:builtLen-1],
			want: image.Refused{Reason: image.Truncated, Message: "the qcow2 image ends before the data, 512 bytes at offset 1536: it was cut off, as an interrupted upload does"},
		},
		"a zero cluster in version 2": {
			file: build(put32(4, 2), put64(builtL2, 1)),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: the cluster at 0 of the disk is marked as zero, which version 2 doesn't know"},
		},
		"a compressed cluster that is none": {
			file: build(put64(builtL2, compressedEntry(builtData, 1))),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: the compressed cluster at 0 of the disk can't be decoded: it is not a deflate stream"},
		},
		"a compressed cluster that ends too early": {
			file: build(put64(builtL2, compressedEntry(builtData, 1)), putBytes(builtData, "\x03\x00")),
			want: image.Refused{Reason: image.CorruptImage, Message: "the qcow2 image is corrupt: the compressed cluster at 0 of the disk can't be decoded: it ends before it has given all of its bytes"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			imagetest.RequireRefused(t, test.file, test.want, 1<<20, Open, imagetest.Ways{"forward": {Begin: begin(defaultRoom()), Random: true}})
		})
	}
}

// TestReadsStrangeButPossibleImages has images that QEMU would not write, and that contradict nothing.
func TestReadsStrangeButPossibleImages(t *testing.T) {
	data := bytes.Repeat([]byte("data"), 128)
	zeros := make([]byte, builtDisk)
	at := func(cluster int, b []byte) []byte {
		disk := bytes.Clone(zeros)
		copy(disk[cluster*512:], b)
		return disk
	}
	tests := map[string]struct {
		file []byte
		want []byte
	}{
		"one stored cluster":                     {build(), at(3, data)},
		"the dirty bit":                          {build(put64(72, featureDirty)), at(3, data)},
		"refcounts that make no sense":           {build(put64(48, 1<<60), put32(56, 1<<31)), at(3, data)},
		"snapshots that make no sense":           {build(put32(60, 1<<31), put64(64, 1<<60)), at(3, data)},
		"extensions that go on behind the image": {build(put32(104, 0x12345678), put32(108, 1<<32-8)), at(3, data)},
		"reserved bits in table entries":         {build(put64(builtL1, builtL2|0x1f<<56|0xfe), put64(builtL2+24, builtData|0x3f<<56|0xfe)), at(3, data)},
		"no L2 table":                            {build(put64(builtL1, 0)), zeros},
		"a disk of 0 bytes":                      {build(put64(24, 0), put32(36, 0), put64(40, 0)), nil},
		"a disk that ends within a sector":       {build(put64(24, 3*512+5)), at(3, data)[:3*512+5]},
		"a cluster that is its own L2 table":     {build(put64(builtL2+24, builtL2)), at(3, build(put64(builtL2+24, builtL2))[builtL2:builtData])},
		"the header as data":                     {build(put64(builtL2+24, 0), put64(builtL2, builtL1)), at(0, build()[builtL1:builtL2])},
		"one cluster in two places":              {build(put64(builtL2, builtData)), append(at(0, data)[:512], at(3, data)[512:]...)},
		"a compressed cluster whose sector is cut off": {
			build(put64(builtL2+24, compressedEntry(builtData, 2)), putBytes(builtData, string(deflated('x'))))[:builtData+len(deflated('x'))],
			at(3, bytes.Repeat([]byte("x"), 512)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			imagetest.RequireReads(t, test.file, test.want, Open, imagetest.Ways{"forward": {Begin: begin(tiny()), Random: true}})
		})
	}
}
