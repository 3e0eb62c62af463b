package vmdk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zlib"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// embeddedText is a descriptor of the given kind.
func embeddedText(kind string, sectors int) string {
	return fmt.Sprintf("# Disk DescriptorFile\nversion=1\nCID=01234567\nparentCID=ffffffff\ncreateType=%q\n\n# Extent description\nRW %d SPARSE \"disk.vmdk\"\n", kind, sectors)
}

// The places in the image that build makes; its grains have 4096 bytes and its tables 16 entries.
const (
	builtGrain     = 4096
	builtPerTable  = 16
	builtDirectory = 3 * sector
	builtTable     = 4 * sector
	builtData      = 8 * sector
	builtDisk      = 20 * builtGrain
	builtLen       = builtData + builtGrain
)

// putHeader writes a header.
func putHeader(b []byte, flags uint32, size int, directory uint64) {
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint32(b[4:], 1)
	le.PutUint32(b[8:], flags|flagNewlines)
	le.PutUint64(b[12:], uint64(size/sector))
	le.PutUint64(b[20:], builtGrain/sector)
	le.PutUint64(b[28:], 1)
	le.PutUint64(b[36:], 2)
	le.PutUint32(b[44:], builtPerTable)
	le.PutUint64(b[56:], directory)
	le.PutUint64(b[64:], builtData/sector)
	copy(b[73:], "\n \r\n")
	if flags&flagCompressed != 0 {
		b[77] = 1
	}
}

// build makes the smallest monolithicSparse image with one stored grain: a header, a descriptor, a grain directory, a
// grain table, data.
func build(change ...func(b []byte)) []byte {
	le := binary.LittleEndian
	b := make([]byte, builtLen)
	putHeader(b, 0, builtDisk, builtDirectory/sector)
	copy(b[sector:], embeddedText("monolithicSparse", builtDisk/sector))
	le.PutUint32(b[builtDirectory:], builtTable/sector)
	le.PutUint32(b[builtTable+3*4:], builtData/sector)
	copy(b[builtData:], bytes.Repeat([]byte("data"), builtGrain/4))
	for _, c := range change {
		c(b)
	}
	return b
}

func put16(at int, v uint16) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func put32(at int, v uint32) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func put64(at int, v uint64) func([]byte) { return imagetest.Put(binary.LittleEndian, at, v) }

func putBytes(at int, v string) func([]byte) { return imagetest.PutBytes(at, v) }

// zlibbed is p as a zlib stream.
func zlibbed(p []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	if _, err := w.Write(p); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// shape says how stream lays an image out.
type shape struct {
	tablesLast bool // all of them behind the data
	twoInOne   bool // and behind one marker
	padFirst   bool // the image begins with sectors of zeros, behind its metadata
	zeroGrains bool // mark zeros as zero grains
	emptyTable bool // have a table for a part of the disk without data
	cutLast    bool // the last grain ends with the disk
	redundant  bool // a second directory behind the first
	change     func(table int, entries []uint32)
}

// stream makes a streamOptimized image of a disk as VMware's programs write it: each grain and each table behind a
// marker, and a footer.
func stream(disk []byte, s shape) []byte {
	le := binary.LittleEndian
	flags := uint32(flagCompressed | flagMarkers)
	if s.zeroGrains {
		flags |= flagZeroGrains
	}
	b := make([]byte, builtData)
	putHeader(b, flags, len(disk), atEnd)
	copy(b[sector:], embeddedText("streamOptimized", len(disk)/sector))
	pad := func() { b = append(b, make([]byte, (sector-len(b)%sector)%sector)...) }
	mark := func(kind uint32, sectors int) {
		m := make([]byte, sector)
		le.PutUint64(m, uint64(sectors))
		le.PutUint32(m[12:], kind)
		b = append(b, m...)
	}
	if s.padFirst {
		b = append(b, make([]byte, 5*sector)...)
	}
	const covers = builtGrain * builtPerTable
	var directory, waiting []byte
	addTables := func(tables []byte) uint32 {
		mark(markTable, (len(tables)+sector-1)/sector)
		at := uint32(len(b) / sector)
		b = append(b, tables...)
		pad()
		return at
	}
	for number := 0; number*covers < len(disk); number++ {
		entries := make([]uint32, builtPerTable)
		any := s.emptyTable
		for i := range entries {
			at := number*covers + i*builtGrain
			if at >= len(disk) {
				break
			}
			grain := disk[at:min(at+builtGrain, len(disk))]
			if len(bytes.Trim(grain, "\x00")) == 0 {
				if s.zeroGrains {
					entries[i] = zeroGrain
				}
				continue
			}
			if !s.cutLast {
				grain = append(bytes.Clone(grain), make([]byte, builtGrain-len(grain))...)
			}
			stored := zlibbed(grain)
			entries[i] = uint32(len(b) / sector)
			any = true
			b = le.AppendUint64(b, uint64(at/sector))
			b = le.AppendUint32(b, uint32(len(stored)))
			b = append(b, stored...)
			pad()
		}
		if s.change != nil {
			s.change(number, entries)
		}
		var table []byte
		for _, e := range entries {
			table = le.AppendUint32(table, e)
		}
		table = append(table, make([]byte, sector-len(table))...)
		switch {
		case !any:
			directory = le.AppendUint32(directory, 0)
		case s.tablesLast:
			directory = le.AppendUint32(directory, uint32(len(waiting)/sector)+1) // mended below
			waiting = append(waiting, table...)
		default:
			directory = le.AppendUint32(directory, addTables(table))
		}
	}
	var first uint32
	for at := 0; at < len(waiting); at += sector {
		if s.twoInOne && at > 0 {
			break
		}
		n := sector
		if s.twoInOne {
			n = len(waiting)
		}
		if p := addTables(waiting[at : at+n]); at == 0 {
			first = p
		}
	}
	if s.tablesLast {
		step := uint32(2)
		if s.twoInOne {
			step = 1
		}
		for i := 0; i < len(directory); i += 4 {
			if e := le.Uint32(directory[i:]); e != 0 {
				le.PutUint32(directory[i:], first+(e-1)*step)
			}
		}
	}
	copies := 1
	if s.redundant {
		copies = 2
	}
	place := 0
	for range copies {
		mark(markDirectory, (len(directory)+sector-1)/sector)
		place = len(b) / sector
		b = append(b, directory...)
		pad()
	}
	mark(markFooter, 1)
	footer := make([]byte, sector)
	putHeader(footer, flags, len(disk), uint64(place))
	b = append(b, footer...)
	return append(b, make([]byte, sector)...)
}
