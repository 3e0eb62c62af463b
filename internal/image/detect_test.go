package image

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sectorWith is a sector of noise that begins with text, or has it at an offset.
func sectorWith(offset int, text string) []byte {
	b := bytes.Repeat([]byte{0x90, 0x00, 0xf3}, 512)
	copy(b[offset:], text)
	return b
}

// oldTar is the header that 'tar --format=v7' makes.
func oldTar() []byte {
	b := make([]byte, 1024)
	copy(b, "disk.raw")
	copy(b[100:], "0000600\x000000000\x000000000\x0000000002000\x0000000000000\x00")
	copy(b[148:], "        0")
	sum := 0
	for _, c := range b[:512] {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 0", sum))
	return b
}

func TestDetectKnowsAnImageByItsContent(t *testing.T) {
	tests := map[string]struct {
		head []byte
		want Format
	}{
		"qcow2 version 2":                {sectorWith(0, "QFI\xfb\x00\x00\x00\x02"), QCOW2},
		"qcow2 version 3":                {sectorWith(0, "QFI\xfb\x00\x00\x00\x03"), QCOW2},
		"qcow version 1":                 {sectorWith(0, "QFI\xfb\x00\x00\x00\x01"), QCOW1},
		"vmdk, sparse":                   {sectorWith(0, "KDMV\x01\x00"), VMDK},
		"vmdk, descriptor":               {[]byte("# Disk DescriptorFile\nversion=1\n"), VMDK},
		"vhd, dynamic":                   {sectorWith(0, "conectix"), VHD},
		"vhdx":                           {sectorWith(0, "vhdxfile"), VHDX},
		"vdi":                            {sectorWith(0x40, "\x7f\x10\xda\xbe"), VDI},
		"gzip":                           {sectorWith(0, "\x1f\x8b\x08\x00"), Gzip},
		"xz":                             {sectorWith(0, "\xfd7zXZ\x00"), XZ},
		"zstd":                           {sectorWith(0, "\x28\xb5\x2f\xfd"), Zstandard},
		"zstd, a skippable frame first":  {sectorWith(0, "\x5e\x2a\x4d\x18"), Zstandard},
		"bzip2":                          {sectorWith(0, "BZh91AY&SY"), Bzip2},
		"tar, as an OVA is":              {sectorWith(257, "ustar\x0000"), Tar},
		"tar, from before it had a mark": {oldTar(), Tar},
		"compress":                       {sectorWith(0, "\x1f\x9d\x90"), Compress},
		"zip":                            {sectorWith(0, "PK\x03\x04"), Zip},
		"zip, empty":                     {[]byte("PK\x05\x06" + strings.Repeat("\x00", 18)), Zip},
		"lz4":                            {sectorWith(0, "\x04\x22\x4d\x18"), LZ4},
		"lz4, legacy":                    {sectorWith(0, "\x02\x21\x4c\x18"), LZ4},
		"lzma of unknown length":         {sectorWith(0, "\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00"), LZMA},
		"lzma, a length and a dictionary of 1.5 MiB": {sectorWith(0, "\x5d\x00\x00\x18\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00"), LZMA},
		"what begins nearly as lzma does":            {sectorWith(0, "\x5d\x00\x00\x15\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00"), Raw},
		"cpio":                                       {[]byte("070701" + strings.Repeat("0", 600)), CPIO},
		"an error page":                              {[]byte("\r\n <!DOCTYPE html>\n<html>" + strings.Repeat("x", 600)), HTML},
		"an error page of an object store":           {[]byte("\xef\xbb\xbf<?xml version='1.0'?><Error><Code>AccessDenied"), HTML},
		"a text":                                     {[]byte(strings.Repeat("not found, näy, 見\n", 60)), Text},
		"a short text":                               {[]byte("nope"), Text},
		"nothing":                                    {nil, Short},
		"511 bytes":                                  {make([]byte, 511), Short},
		"a sector of zeros":                          {make([]byte, 512), Raw},
		"a boot sector":                              {sectorWith(0, "\xeb\x63\x90"), Raw},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Detect(test.head)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEveryFormatThatIsNotReadIsRefusedByName(t *testing.T) {
	for _, m := range magics() {
		err := RefuseFormat(m.format)
		var refused *Refused
		switch {
		case read(m.format):
			if err != nil {
				t.Error(err)
			}
		case !errors.As(err, &refused), refused.Reason != UnsupportedFormat, !strings.Contains(refused.Message, string(m.format)):
			t.Errorf("%s: %v", m.format, err)
		}
	}
}

// read reports whether a format is read by this version.
func read(f Format) bool { return slices.Contains([]Format{Raw, QCOW2, VMDK, VHD, VHDX, VDI}, f) }

func FuzzDetect(f *testing.F) {
	for _, m := range magics() {
		f.Add(sectorWith(m.offset, m.bytes))
		f.Add([]byte(m.bytes))
	}
	f.Add([]byte("<html>"))
	f.Add([]byte("\xef\xbb\xbf text \xc3"))
	f.Fuzz(func(t *testing.T, head []byte) {
		format := Detect(head)
		if format == Raw && len(head) < SectorSize {
			t.Fatalf("%d bytes are not a disk", len(head))
		}
		if err := RefuseFormat(format); (err == nil) != read(format) {
			t.Fatalf("%s: %v", format, err)
		}
	})
}
