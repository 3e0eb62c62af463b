package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// be32 to le64 are changes of one number, with the high or the low byte first.
func be32(at int, v uint32) func([]byte) { return imagetest.Put(binary.BigEndian, at, v) }
func be64(at int, v uint64) func([]byte) { return imagetest.Put(binary.BigEndian, at, v) }
func le16(at int, v uint16) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }
func le32(at int, v uint32) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }
func le64(at int, v uint64) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

// changed is a copy of an image with changes.
func changed(b []byte, changes ...func([]byte)) []byte {
	b = bytes.Clone(b)
	for _, change := range changes {
		change(b)
	}
	return b
}

const (
	most32 = 1<<32 - 1
	most64 = 1<<64 - 1
	eib    = 1 << 60
	mib    = 1 << 20
)

// hostileQCOW2 are qcow2 images, of which each says something that is not to be believed.
func hostileQCOW2(t *testing.T, other string) map[string][]byte {
	good, _ := imagetest.Image(t, "qcow2", imagetest.Recipe{})
	return map[string][]byte{
		"clusters of 2^(2^32-1) bytes":        changed(good, be32(20, most32)),
		"clusters of 2^63 bytes":              changed(good, be32(20, 63)),
		"a disk of 2^64-1 bytes":              changed(good, be64(24, most64)),
		"a disk of 1 EiB":                     changed(good, be64(24, eib)),
		"a disk of 63 TiB and a small table":  changed(good, be64(24, 63<<40)),
		"an L1 table at 2^64-64Ki":            changed(good, be64(40, most64-0xffff)),
		"an L1 table at 2^62":                 changed(good, be64(40, 1<<62)),
		"a header of 2^32-1 bytes":            changed(good, be32(100, most32)),
		"all features":                        changed(good, be64(72, most64)),
		"a backing file that is a pipe":       changed(good, be64(8, 600), be32(16, uint32(len(other))), imagetest.PutBytes(600, other)),
		"a backing file's name of 4 GiB":      changed(good, be64(8, 600), be32(16, most32)),
		"a data file that is a pipe":          changed(good, be64(72, 4), be32(104, 0x44415441), be32(108, uint32(len(other))), imagetest.PutBytes(112, other)),
		"an extension of 4 GiB":               changed(good, be64(72, 4), be32(104, 0x44415441), be32(108, most32)),
		"extensions without end":              changed(good, be64(72, 4), func(b []byte) { clear(b[104:50000]); fillWith(b[104:50000], 1, 0) }),
		"encryption":                          changed(good, be32(32, 2)),
		"a full L1 table of one small table":  sameTables(9, 4<<20),
		"a full L1 table of one usual table":  sameTables(16, 1<<14),
		"a full L1 table of one large table":  sameTables(21, 8),
		"a full L1 table of far-off tables":   farTables(4 << 20),
		"a million parts in the same place":   samePlaces(200),
		"a compressed cluster of other bytes": changed(sameTables(16, 1), be64(128<<10, 1<<62|3<<54|8<<20), be32(8<<20, most32)),
	}
}

// fillWith repeats words over b.
func fillWith(b []byte, words ...uint32) {
	for i := 0; i+4 <= len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], words[i/4%len(words)])
	}
}

// qcow2Header is the header of an image with clusters of 2^bits bytes and an L1 table, of so many entries, in the second one.
func qcow2Header(b []byte, bits, entries int) {
	copy(b, "QFI\xfb")
	covers := uint64(1) << (2*bits - 3)
	for _, change := range []func([]byte){be32(4, 3), be32(20, uint32(bits)), be64(24, covers*uint64(entries)), be32(36, uint32(entries)), be64(40, 1<<bits), be32(96, 4), be32(100, 104)} {
		change(b)
	}
}

// sameTables is an image whose L1 table names one L2 table everywhere, in which all clusters are the same one.
func sameTables(bits, entries int) []byte {
	size := 1 << bits
	table := (size + entries*8 + size - 1) / size * size
	b := make([]byte, max(table+2*size, 9<<20))
	qcow2Header(b, bits, entries)
	for i := range entries {
		be64(size+8*i, uint64(table))(b)
	}
	for at := table; at < table+size; at += 8 {
		be64(at, uint64(table+size))(b)
	}
	b[table+size] = 1
	return b
}

// farTables is an image whose L2 tables all lie somewhere else, none of them within it.
func farTables(entries int) []byte {
	b := make([]byte, 512+entries*8+512)
	qcow2Header(b, 9, entries)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range entries {
		be64(512+8*i, uint64(r.Int64N(1<<46))<<9)(b)
	}
	return b
}

// samePlaces is an image of L2 tables in which all clusters are the same one.
func samePlaces(tables int) []byte {
	const size = 64 << 10
	b := make([]byte, (3+tables)*size)
	qcow2Header(b, 16, tables)
	for i := range tables {
		be64(size+8*i, uint64((2+i)*size))(b)
		for at := (2 + i) * size; at < (3+i)*size; at += 8 {
			be64(at, uint64((2+tables)*size))(b)
		}
	}
	return b
}

// hostileVMDK are vmdk images.
func hostileVMDK(t *testing.T, other string) map[string][]byte {
	sparse, _ := imagetest.Image(t, "vmdk", imagetest.Recipe{})
	stream, _ := imagetest.Image(t, "vmdk", imagetest.Recipe{Options: "subformat=streamOptimized"})
	text := func(extent string) []byte {
		return []byte("# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType=\"monolithicFlat\"\n" + extent + "\n")
	}
	tables := int(binary.LittleEndian.Uint64(sparse[56:])) * 512
	grain := int(binary.LittleEndian.Uint64(stream[64:])) * 512
	return map[string][]byte{
		"a disk of 2^64-1 sectors":              changed(sparse, le64(12, most64)),
		"a disk of 1 EiB":                       changed(sparse, le64(12, eib/512)),
		"a disk of 8 TiB and a small directory": changed(sparse, le64(12, 8<<31)),
		"grains of 2^63 sectors":                changed(sparse, le64(20, 1<<63)),
		"grains of no sector":                   changed(sparse, le64(20, 0)),
		"tables of 2^32-1 entries":              changed(sparse, le32(44, most32)),
		"tables of no entry":                    changed(sparse, le32(44, 0)),
		"a descriptor of 4 GiB":                 changed(sparse, le64(36, 4<<30/512)),
		"a descriptor at 2^64-1":                changed(sparse, le64(28, most64)),
		"a directory at 2^63":                   changed(sparse, le64(56, 1<<63)),
		"a directory that is its own table":     changed(sparse, func(b []byte) { fillLittle(b[tables:tables+4], uint32(tables/512)) }, le32(tables+4, most32)),
		"a grain at the end of all sectors":     changed(sparse, le32(int(binary.LittleEndian.Uint32(sparse[tables:]))*512, most32)),
		"a full directory of one table":         sameGrainTables(),
		"a grain marker of 4 GiB":               changed(stream, le32(grain+8, most32)),
		"a grain at sector 2^64-1":              changed(stream, le64(grain, most64)),
		"a footer that isn't there":             changed(stream[:len(stream)-512], le64(56, most64)),
		"a stream of markers without an end":    append(changed(stream[:grain], le64(56, most64)), make([]byte, 8<<20)...),
		"an extent that is a pipe":              text(fmt.Sprintf("RW 8 FLAT %q 0", other)),
		"a descriptor of 10,000 extents":        text(strings.Repeat("RW 8 FLAT \"a\" 0\n", 10_000)),
		"a parent that is a pipe":               bytes.Replace(text(fmt.Sprintf("parentFileNameHint=%q", other)), []byte("ffffffff"), []byte("00000001"), 1),
	}
}

func fillLittle(b []byte, v uint32) {
	for i := 0; i+4 <= len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], v)
	}
}

// sameGrainTables is an image whose directory names one grain table everywhere, in which all grains are the same one.
func sameGrainTables() []byte {
	const entries = 2 << 20
	b := make([]byte, 512+4*entries+2048+512)
	copy(b, "KDMV")
	table := uint32(512+4*entries) / 512
	for _, change := range []func([]byte){le32(4, 1), le64(12, entries*512), le64(20, 1), le64(28, 0), le32(44, 512), le64(56, 1), le64(64, 1)} {
		change(b)
	}
	le64(28, 2)(b)
	le64(36, 0)(b)
	fillLittle(b[512:512+4*entries], table)
	fillLittle(b[table*512:table*512+2048], table+4)
	return b
}

// hostileBlocks are images of the formats that have their disk in blocks.
func hostileBlocks(t *testing.T) map[string][]byte {
	vhd, _ := imagetest.Image(t, "vpc", imagetest.Recipe{Options: "force_size=on"})
	vdi, _ := imagetest.Image(t, "vdi", imagetest.Recipe{})
	vhdx, _ := imagetest.Image(t, "vhdx", imagetest.Recipe{})
	const vhdHeader = 512
	sealed := func(change ...func([]byte)) []byte {
		b := changed(vhd, change...)
		for _, part := range [][]byte{b[:512], b[vhdHeader : vhdHeader+1024]} {
			at := 64
			if string(part[:8]) == "cxsparse" {
				at = 36
			}
			clear(part[at : at+4])
			sum := uint32(0)
			for _, c := range part {
				sum += uint32(c)
			}
			binary.BigEndian.PutUint32(part[at:], ^sum)
		}
		return b
	}
	table := int(binary.BigEndian.Uint64(vhd[vhdHeader+16:]))
	images := map[string][]byte{
		"vhd: a disk of 2^64-512 bytes":         sealed(be64(48, most64-511)),
		"vhd: a disk of 1 EiB":                  sealed(be64(48, eib)),
		"vhd: a disk of 63 TiB, a small table":  sealed(be64(48, 63<<40), be32(vhdHeader+28, 1<<26)),
		"vhd: a table at 2^64-512":              sealed(be64(vhdHeader+16, most64-511)),
		"vhd: a table of 2^32-1 entries":        sealed(be64(48, 8<<40), be32(vhdHeader+28, most32)),
		"vhd: blocks of 2^31 bytes":             sealed(be32(vhdHeader+32, 1<<31)),
		"vhd: blocks of no byte":                sealed(be32(vhdHeader+32, 0)),
		"vhd: a header that is the footer":      sealed(be64(16, 0)),
		"vhd: a header at 2^64-1":               sealed(be64(16, most64)),
		"vhd: all blocks in the same place":     sealed(func(b []byte) { copy(b[table+4:table+20], bytes.Repeat(b[table:table+4], 4)) }),
		"vhd: a block at the end of all":        sealed(be32(table, most32-1)),
		"vdi: a disk of 2^64-1 bytes":           changed(vdi, le64(0x170, most64)),
		"vdi: a disk of 1 EiB":                  changed(vdi, le64(0x170, eib)),
		"vdi: a disk of 63 TiB, a small map":    changed(vdi, le64(0x170, 63<<40)),
		"vdi: a map of 2^32-1 blocks":           changed(vdi, le32(0x180, most32)),
		"vdi: a map at 2^32-512":                changed(vdi, le32(0x154, most32-511)),
		"vdi: blocks of 2^32-1 bytes":           changed(vdi, le32(0x178, most32)),
		"vdi: all blocks in the same place":     changed(vdi, func(b []byte) { copy(b[516:520], b[512:516]) }),
		"vdi: a block at the end of all":        changed(vdi, le32(512, most32-2)),
		"vdi: differences to another image":     changed(vdi, le32(0x4c, 4)),
		"vhdx: a log":                           sealVHDX(changed(vhdx, imagetest.PutBytes(64<<10+48, "a log that's there"), imagetest.PutBytes(128<<10+48, "a log that's there"))),
		"vhdx: a log of 4 GiB":                  sealVHDX(changed(vhdx, le32(64<<10+68, most32), le32(128<<10+68, most32))),
		"vhdx: a region table of 2^32-1":        sealVHDX(changed(vhdx, le32(192<<10+8, most32), le32(256<<10+8, most32))),
		"vhdx: regions at 2^64-1MiB":            sealVHDX(changed(vhdx, le64(192<<10+32, most64-mib+1), le64(192<<10+64, most64-mib+1))),
		"vhdx: regions of 4 GiB at 1 EiB":       sealVHDX(changed(vhdx, le64(192<<10+32, eib), le32(192<<10+40, most32&^(mib-1)), le64(192<<10+64, eib+4<<30), le32(192<<10+72, most32&^(mib-1)))),
		"vhdx: regions in the same place":       sealVHDX(changed(vhdx, func(b []byte) { copy(b[192<<10+64:192<<10+72], b[192<<10+32:]) })),
		"vhdx: checksums that are wrong":        changed(vhdx, le32(64<<10+4, 0), le32(128<<10+4, 0)),
		"vhdx: an image that is 4 MiB of zeros": append([]byte("vhdxfile"), make([]byte, 4*mib)...),
	}
	for name, at := range metadataOfVHDX(vhdx) {
		images["vhdx: "+name+" of 2^64-1"] = changed(vhdx, le64(at, most64))
		images["vhdx: "+name+" of 1 EiB"] = changed(vhdx, le64(at, eib))
	}
	metadata := metadataAt(vhdx)
	images["vhdx: 65535 metadata items"] = changed(vhdx, le16(metadata+10, 1<<16-1))
	images["vhdx: a metadata item at 4 GiB"] = changed(vhdx, le32(metadata+32+16, most32), le32(metadata+32+20, most32))
	return images
}

// metadataAt is where a vhdx image has its metadata.
func metadataAt(b []byte) int {
	for i := range 2 {
		at := 192<<10 + 16 + 32*i
		if binary.LittleEndian.Uint32(b[at:]) == 0x8b7ca206 {
			return int(binary.LittleEndian.Uint64(b[at+16:]))
		}
	}
	panic("the image has no metadata")
}

// metadataOfVHDX are the places of the block's and the disk's size.
func metadataOfVHDX(b []byte) map[string]int {
	places := map[string]int{}
	metadata := metadataAt(b)
	for i := range int(binary.LittleEndian.Uint16(b[metadata+10:])) {
		entry := b[metadata+32+32*i:]
		at := metadata + int(binary.LittleEndian.Uint32(entry[16:]))
		switch binary.LittleEndian.Uint32(entry) {
		case 0xcaa16737:
			places["a block"] = at
		case 0x2fa54224:
			places["a disk"] = at
		}
	}
	return places
}

// sealVHDX makes the checksums right.
func sealVHDX(b []byte) []byte {
	for at, n := range map[int]int{64 << 10: 4 << 10, 128 << 10: 4 << 10, 192 << 10: 64 << 10, 256 << 10: 64 << 10} {
		clear(b[at+4 : at+8])
		le32(at+4, crc32.Checksum(b[at:at+n], crc32.MakeTable(crc32.Castagnoli)))(b)
	}
	return b
}

// packedBy is what a packing tool makes of bytes.
func packedBy(t *testing.T, b []byte, tool string) []byte {
	t.Helper()
	cmd := exec.Command(tool, "-c", "-1")
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return out
}

// bomb is zeros, packed by one tool after the other; the first ones are repeated, which each of the packings allows.
func bomb(t *testing.T, tools ...string) []byte {
	b := packedBy(t, make([]byte, 64*mib), tools[0])
	for _, tool := range tools[1:] {
		b = packedBy(t, bytes.Repeat(b, max(1, 2*mib/len(b))), tool)
	}
	return b
}

// hostileWrappers are packed files.
func hostileWrappers(t *testing.T) map[string][]byte {
	gz := packedBy(t, make([]byte, mib), "gzip")
	xz := packedBy(t, make([]byte, mib), "xz")
	zst := packedBy(t, make([]byte, mib), "zstd")
	var long bytes.Buffer
	z, err := zstd.NewWriter(&long, zstd.WithWindowSize(128*mib), zstd.WithSingleSegment(false))
	if err == nil {
		_, err = z.Write(make([]byte, 2*mib))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	five := gz
	for range 4 {
		five = packedBy(t, five, "gzip")
	}
	return map[string][]byte{
		"a bomb in gzip, xz, zstd and bzip2":  bomb(t, "gzip", "xz", "zstd", "bzip2"),
		"a bomb in xz, zstd, bzip2 and gzip":  bomb(t, "xz", "zstd", "bzip2", "gzip"),
		"a bomb in zstd, bzip2, gzip and xz":  bomb(t, "zstd", "bzip2", "gzip", "xz"),
		"a bomb in bzip2, gzip, xz and zstd":  bomb(t, "bzip2", "gzip", "xz", "zstd"),
		"a bomb in zstd, four times":          bomb(t, "zstd", "zstd", "zstd", "zstd"),
		"five wrappers":                       five,
		"a gzip name without an end":          append(changed(gz[:10], func(b []byte) { b[3] = 8 }), bytes.Repeat([]byte("a"), 40*mib)...),
		"gzip members without content":        bytes.Repeat(packedBy(t, nil, "gzip"), 2*mib),
		"gzip with zeros behind it":           append(bytes.Clone(gz), make([]byte, 40*mib)...),
		"an xz block of 2^62 bytes":           hugeXZ(xz),
		"xz streams without content":          bytes.Repeat(packedBy(t, nil, "xz"), mib),
		"an xz window of 4 GiB":               xzWindow(xz),
		"a zstd window of 2 TiB":              changed(zst, func(b []byte) { b[4] &^= 0xe3; b[5] = 0xf8 }),
		"a zstd window of 128 MiB":            long.Bytes(),
		"a zstd frame to be skipped of 4 GiB": append([]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"), make([]byte, 40*mib)...),
		"zstd frames to be skipped":           bytes.Repeat([]byte("\x50\x2a\x4d\x18\x00\x00\x00\x00"), 5*mib),
		"bzip2 streams without content":       bytes.Repeat(packedBy(t, nil, "bzip2"), 2*mib),
	}
}

// hugeXZ is an xz file whose block says that it is 2^62 bytes long, packed and unpacked.
func hugeXZ(xz []byte) []byte {
	header := []byte{0, 0xc0}
	for range 2 {
		header = binary.AppendUvarint(header, 1<<62)
	}
	return xzBlock(xz, append(header, 0x21, 1, 22))
}

// xzWindow is an xz file whose block wants a window of 4 GiB.
func xzWindow(xz []byte) []byte { return xzBlock(xz, []byte{0, 0, 0x21, 1, 40}) }

// xzBlock is an xz file with another block header.
func xzBlock(xz, header []byte) []byte {
	for len(header)%4 != 0 {
		header = append(header, 0)
	}
	header[0] = byte(len(header) / 4)
	header = binary.LittleEndian.AppendUint32(header, crc32.ChecksumIEEE(header))
	return append(append(bytes.Clone(xz[:12]), header...), xz[24:]...)
}

// tarHeader is the header of a file in an archive.
func tarHeader(name string, kind byte, size string) []byte {
	b := make([]byte, 512)
	copy(b, name)
	copy(b[100:], "0000644\x000000000\x000000000\x00")
	copy(b[124:], size)
	copy(b[136:], "00000000000\x00        ")
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	sumTar(b)
	return b
}

// sumTar makes the checksum of a file's header right.
func sumTar(b []byte) {
	copy(b[148:], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// hostileTars are archives.
func hostileTars(t *testing.T) map[string][]byte {
	const large = "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff" // 8 EiB
	of := func(n int) string { return fmt.Sprintf("%011o\x00", n) }
	disk := imagetest.Disk()[:2*mib]
	pax := func(record string) []byte {
		record = fmt.Sprintf("%d %s\n", len(record)+4, record)
		body := append([]byte(record), make([]byte, 512-len(record))...)
		return append(append(tarHeader("pax", 'x', of(len(record))), body...), append(tarHeader("disk", '0', of(len(disk))), disk...)...)
	}
	var members bytes.Buffer
	z := gzip.NewWriter(&members)
	if _, err := z.Write(bytes.Repeat(tarHeader("a", '0', of(0)), 1000)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"a million members":              bytes.Repeat(members.Bytes(), 1000),
		"a member of 8 EiB":              append(tarHeader("disk", '0', large), disk...),
		"a member of 8 EiB, by pax":      pax("size=9223372036854775807"),
		"a pax header of 8 EiB":          append(tarHeader("pax", 'x', large), disk...),
		"a name of 1 GiB":                append(tarHeader("name", 'L', of(1<<30)), make([]byte, 4*mib)...),
		"a sparse member of 8 EiB":       append(changed(tarHeader("disk", 'S', of(len(disk))), imagetest.PutBytes(257, "ustar  \x00"), imagetest.PutBytes(386, of(0)+of(len(disk))), imagetest.PutBytes(483, large), sumTar), disk...),
		"a directory of 8 EiB":           append(tarHeader("dir", '5', large), disk...),
		"a link, and no disk":            append(tarHeader("link", '2', of(0)), make([]byte, 1024)...),
		"a member that is an archive":    append(append(tarHeader("a.tar", '0', of(3*mib)), tarHeader("b.tar", '0', large)...), make([]byte, 3*mib)...),
		"members that are in each other": nestedTars(of, disk),
	}
}

// nestedTars is an archive in an archive, six deep.
func nestedTars(of func(int) string, b []byte) []byte {
	for range 6 {
		b = append(append(tarHeader("a.tar", '0', of(len(b))), b...), make([]byte, 1024)...)
	}
	return b
}
