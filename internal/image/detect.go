package image

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Format names what kind of bytes an image is made of.
type Format string

// The formats that Detect knows. Those for which RefuseFormat answers an error are known so that they are refused by name
// and never stored as if they were a raw disk.
const (
	Raw       Format = "raw"
	QCOW2     Format = "qcow2"
	QCOW1     Format = "qcow (version 1)"
	QED       Format = "qed"
	VMDK      Format = "vmdk"
	VHD       Format = "vhd"
	VHDX      Format = "vhdx"
	VDI       Format = "vdi"
	Parallels Format = "parallels"
	Gzip      Format = "gzip"
	XZ        Format = "xz"
	LZMA      Format = "lzma"
	Zstandard Format = "zstd"
	Bzip2     Format = "bzip2"
	LZ4       Format = "lz4"
	Tar       Format = "tar"
	Zip       Format = "zip"
	SevenZip  Format = "7z"
	Compress  Format = "compress (.Z)"
	Lzip      Format = "lzip"
	Lzop      Format = "lzop"
	RAR       Format = "rar"
	Cabinet   Format = "cabinet"
	WIM       Format = "wim"
	CPIO      Format = "cpio"
	Ar        Format = "ar"
	RPM       Format = "rpm"
	XAR       Format = "xar"
	Lrzip     Format = "lrzip"
	EWF       Format = "ewf (E01)"
	Partclone Format = "partclone"
	Bochs     Format = "bochs"
	Sparse    Format = "android sparse image"
	HTML      Format = "html"
	Text      Format = "text"
	Short     Format = "too short to be a disk"
)

// SectorSize is the unit of a disk in bytes; nothing shorter is one.
const SectorSize = 512

// HeadBytes is how many bytes from the beginning of an image Detect and the formats' headers need at most.
const HeadBytes = 64 << 10

// magic is a byte string by which a format is known.
type magic struct {
	offset int
	bytes  string
	format Format
}

// magics answers the byte strings, the more particular ones first.
func magics() []magic {
	return []magic{
		{0, "QFI\xfb\x00\x00\x00\x01", QCOW1},
		{0, "QFI\xfb", QCOW2},
		{0, "QED\x00", QED},
		{0, "KDMV", VMDK},
		{0, "COWD", VMDK},
		{0, "# Disk DescriptorFile", VMDK},
		{0, "conectix", VHD},
		{0, "vhdxfile", VHDX},
		{0x40, "\x7f\x10\xda\xbe", VDI},
		{0, "WithoutFreeSpace", Parallels},
		{0, "WithouFreSpacExt", Parallels},
		{0, "\x1f\x8b\x08", Gzip},
		{0, "\xfd7zXZ\x00", XZ},
		{0, "\x28\xb5\x2f\xfd", Zstandard},
		{0, "BZh", Bzip2},
		{0, "\x04\x22\x4d\x18", LZ4},
		{0, "\x02\x21\x4c\x18", LZ4}, // its legacy frame
		{257, "ustar", Tar},
		{0, "PK\x03\x04", Zip},
		{0, "PK\x05\x06", Zip}, // empty
		{0, "PK\x07\x08", Zip}, // the first of several parts
		{0, "7z\xbc\xaf\x27\x1c", SevenZip},
		{0, "\x1f\x9d", Compress},
		{0, "LZIP", Lzip},
		{0, "\x89LZO\x00\r\n\x1a\n", Lzop},
		{0, "Rar!\x1a\x07", RAR},
		{0, "MSCF\x00\x00\x00\x00", Cabinet},
		{0, "MSWIM\x00\x00\x00", WIM},
		{0, "070701", CPIO},
		{0, "070702", CPIO},
		{0, "070707", CPIO},
		{0, "!<arch>\n", Ar},
		{0, "\xed\xab\xee\xdb", RPM},
		{0, "xar!", XAR},
		{0, "LRZI", Lrzip},
		{0, "EVF\x09\x0d\x0a\xff\x00", EWF},
		{0, "partclone-image", Partclone},
		{0, "Bochs Virtual HD Image", Bochs},
		{0, "\x3a\xff\x26\xed", Sparse},
	}
}

// Detect says what the first bytes of an image are; HeadBytes of them are enough. Bytes without any mark of a known
// format are Raw, since a disk may begin with anything; so are a fixed VHD's, which only its end tells.
func Detect(head []byte) Format {
	for _, m := range magics() {
		if len(head) >= m.offset && bytes.HasPrefix(head[m.offset:], []byte(m.bytes)) {
			return m.format
		}
	}
	if isSkippableZstd(head) {
		return Zstandard
	}
	if isLZMA(head) {
		return LZMA
	}
	if isOldTar(head) {
		return Tar
	}
	if f, ok := detectText(head); ok {
		return f
	}
	if len(head) < SectorSize {
		return Short
	}
	return Raw
}

// isSkippableZstd knows a Zstandard stream that begins with a skippable frame (RFC 8878, section 3.1.2), as pzstd and
// seekable writers make.
func isSkippableZstd(head []byte) bool {
	return len(head) >= 4 && head[0]&0xf0 == 0x50 && head[1] == 0x2a && head[2] == 0x4d && head[3] == 0x18
}

// isLZMA knows a file of lzma(1), which has no mark, as xz(1) does: the usual properties, a dictionary of 2^n or 2^n + 2^(n-1)
// bytes, a length that is unknown or less than 256 GiB, and the zero that begins the data (LZMA specification, "lzma file format").
func isLZMA(head []byte) bool {
	const headerBytes = 13
	if len(head) <= headerBytes || head[0] != 0x5d || head[headerBytes] != 0 {
		return false
	}
	dictionary, length := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint64(head[5:])
	ones := bits.OnesCount32(dictionary)
	usual := ones == 1 || ones == 2 && dictionary&(dictionary>>1) != 0
	return usual && dictionary >= 1<<12 && (length == 1<<64-1 || length < 1<<38)
}

// isOldTar knows a tar archive from before POSIX.1-1988, which has no mark: a header's checksum, in octal digits at byte
// 148, is the sum of its bytes with spaces in the checksum's place. An archive begins with a name.
func isOldTar(head []byte) bool {
	const at, digits = 148, 8
	if len(head) < SectorSize || head[0] == 0 {
		return false
	}
	sum := 0
	for i, c := range head[:SectorSize] {
		if i < at || i >= at+digits {
			sum += int(c)
		} else {
			sum += ' '
		}
	}
	field := strings.Trim(string(head[at:at+digits]), " \x00")
	want, err := strconv.ParseUint(field, 8, 32)
	return err == nil && int(want) == sum
}

// detectText knows a page of text, such as a web server's error page: a disk doesn't begin with a sector of printable
// characters.
func detectText(head []byte) (Format, bool) {
	sector := head[:min(len(head), SectorSize)]
	trimmed := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(sector, []byte("\xef\xbb\xbf")), " \t\r\n"))
	for _, mark := range []string{"<!doctype", "<html", "<head", "<?xml", "<!--"} {
		if bytes.HasPrefix(trimmed, []byte(mark)) {
			return HTML, true
		}
	}
	if len(sector) == 0 || !printable(sector) {
		return "", false
	}
	return Text, true
}

// printable reports whether b is UTF-8 without control characters other than white space. A rune that is cut by the
// end of b is let pass.
func printable(b []byte) bool {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			if !utf8.FullRune(b[i:]) {
				return true
			}
			return false
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' && r != '\f', r == 0x7f:
			return false
		}
		i += size
	}
	return true
}

// RefuseFormat is the refusal of a format that Detect knows and this version doesn't read. For a format that is read
// it answers nil.
func RefuseFormat(f Format) error {
	switch f {
	case Raw, QCOW2, VMDK, VHD, VHDX, VDI:
		return nil
	case HTML:
		return Refuse(NotADisk, "this is a web page, not a disk image: check that the URL points to the file itself and not to a page that links to it")
	case Text:
		return Refuse(NotADisk, "this is a text, not a disk image: check what the URL answers")
	case Short:
		return Refuse(NotADisk, "fewer than %d bytes are too short to be a disk", SectorSize)
	case Gzip, XZ, LZMA, Zstandard, Bzip2, LZ4, Tar, Zip, SevenZip, Compress, Lzip, Lzop, RAR, Cabinet, WIM, CPIO, Ar, RPM, XAR, Lrzip, Sparse, EWF, Partclone:
		return Refuse(UnsupportedFormat, "this is a %s file, which can't be read here: unpack it and serve the disk image itself (raw, qcow2, vmdk, vhd, vhdx or vdi)", f)
	default:
		return Refuse(UnsupportedFormat, "this is a %s image, which is not served by this version yet: convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that", f)
	}
}
