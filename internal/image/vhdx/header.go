// Package vhdx reads Hyper-V's virtual hard disks, version 2, after [MS-VHDX]: anywhere (Open) or in one forward pass
// (Begin). Both read fixed and dynamic disks, refuse the same images, and never look outside the image.
//
// The log is not replayed: an image whose log isn't empty is refused by name. Sector bitmaps are not read: only
// differencing disks, which are refused, need them.
package vhdx

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	mib = 1 << 20 // everything behind the header section lies and ends at a multiple of it (2.1)

	fileSignature   = "vhdxfile"
	headerSignature = "head"
	regionSignature = "regi"

	headerLen   = 4 << 10
	regionLen   = 64 << 10
	sectionLen  = 320 << 10 // up to the end of the second region table
	maxRegions  = 2047
	knownHeader = 1 // the header's version
)

// The places of the two headers and the two region tables (2.2).
const (
	firstHeader  = 64 << 10
	secondHeader = 128 << 10
	firstRegion  = 192 << 10
	secondRegion = 256 << 10
)

// guid is an identifier as the image stores it: the first three of its parts with the low byte first.
type guid [16]byte

// parts makes a guid of its parts as they are written down.
func parts(a uint32, b, c uint16, rest uint64) guid {
	var g guid
	binary.LittleEndian.PutUint32(g[0:], a)
	binary.LittleEndian.PutUint16(g[4:], b)
	binary.LittleEndian.PutUint16(g[6:], c)
	binary.BigEndian.PutUint64(g[8:], rest)
	return g
}

// The regions that every image has (2.2.3.2).
func batRegion() guid      { return parts(0x2dc27766, 0xf623, 0x4200, 0x9d64_115e9bfd4a08) }
func metadataRegion() guid { return parts(0x8b7ca206, 0x4790, 0x4b9a, 0xb8fe_575f050f886e) }

// area is a part of the image, in bytes.
type area struct{ offset, length int64 }

func (a area) end() int64 { return a.offset + a.length }

// section is what reading a disk needs of the header section.
type section struct {
	bat, metadata area
	unread        []area // regions that are not read, the log among them
	taken         []area // of all regions and the header section, by offset: no block lies there
}

// parseSection reads the header section (2.2), which b is from its begin to the end of the second region table.
func parseSection(b []byte) (section, error) {
	if !bytes.HasPrefix(b, []byte(fileSignature)) {
		return section{}, corrupt("it doesn't begin as one")
	}
	h, err := currentHeader(b)
	if err != nil {
		return section{}, err
	}
	log, err := parseHeader(h)
	if err != nil {
		return section{}, err
	}
	s := section{taken: []area{{0, mib}}}
	if log.length > 0 {
		s.taken = append(s.taken, log)
		s.unread = append(s.unread, log)
	}
	return s, s.parseRegions(b)
}

// currentHeader answers the header that counts: the valid one with the higher sequence number. Two that are the same
// are accepted, since Disk2vhd writes such.
func currentHeader(b []byte) ([]byte, error) {
	first, second := b[firstHeader:][:headerLen], b[secondHeader:][:headerLen]
	sequence := func(h []byte) uint64 { return binary.LittleEndian.Uint64(h[8:]) }
	switch one, two := sealed(first, headerSignature), sealed(second, headerSignature); {
	case !one && !two:
		return nil, corrupt("neither of its headers is whole: their checksums don't fit")
	case !two:
		return first, nil
	case !one || sequence(second) > sequence(first):
		return second, nil
	case sequence(first) == sequence(second) && !bytes.Equal(first, second):
		return nil, corrupt("its two headers contradict each other")
	}
	return first, nil
}

// sealed reports whether a structure has its signature and its CRC-32C, which is computed as if the checksum's own
// field, behind the signature, were zero.
func sealed(b []byte, signature string) bool {
	if string(b[:4]) != signature {
		return false
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, b[:4])
	sum = crc32.Update(sum, table, make([]byte, 4))
	sum = crc32.Update(sum, table, b[8:])
	return sum == binary.LittleEndian.Uint32(b[4:])
}

// parseHeader reads where the log lies from a header (2.2.2), and refuses one that isn't empty.
func parseHeader(h []byte) (area, error) {
	le := binary.LittleEndian
	if version := le.Uint16(h[66:]); version != knownHeader {
		return area{}, image.Refuse(image.UnsupportedFormat, "the vhdx image has version %d; version %d is read", version, knownHeader)
	}
	if guid(h[48:64]) != (guid{}) {
		return area{}, image.Refuse(image.UnsupportedFormat, "the vhdx image was not closed: its log may hold changes that are not carried out yet, and replaying them is not served by this version: "+
			"close the machine or the tool that has it open, carry them out with 'qemu-img check -r all FILE' (or by mounting the disk once in Windows), and serve it again")
	}
	return parseArea("its log", le.Uint64(h[72:]), le.Uint32(h[68:]))
}

// parseArea checks where something lies behind the header section.
func parseArea(what string, offset uint64, length uint32) (area, error) {
	if length == 0 && offset == 0 {
		return area{}, nil
	}
	if offset < mib || offset%mib != 0 || length%mib != 0 || offset > math.MaxInt64-uint64(length) {
		return area{}, corrupt("%s lies at offset %d and is %d bytes long", what, offset, length)
	}
	return area{int64(offset), int64(length)}, nil
}

// parseRegions reads the first region table that is whole (2.2.3).
func (s *section) parseRegions(b []byte) error {
	table := b[firstRegion:][:regionLen]
	if !sealed(table, regionSignature) {
		table = b[secondRegion:][:regionLen]
		if !sealed(table, regionSignature) {
			return corrupt("neither of its region tables is whole: their checksums don't fit")
		}
	}
	le := binary.LittleEndian
	count := le.Uint32(table[8:])
	if count > maxRegions {
		return corrupt("its region table has %d entries; %d are possible", count, maxRegions)
	}
	for i := range int(count) {
		entry := table[16+32*i:][:32]
		if err := s.addRegion(entry); err != nil {
			return err
		}
	}
	if s.bat.length == 0 || s.metadata.length == 0 {
		return corrupt("its region table lacks the block allocation table or the metadata")
	}
	slices.SortFunc(s.taken, func(a, b area) int { return cmp.Compare(a.offset, b.offset) })
	for i := range len(s.taken) - 1 {
		if s.taken[i].end() > s.taken[i+1].offset {
			return corrupt("two of its regions overlap at offset %d", s.taken[i+1].offset)
		}
	}
	return nil
}

// addRegion reads one entry of the region table (2.2.3.2).
func (s *section) addRegion(entry []byte) error {
	le := binary.LittleEndian
	id := guid(entry[:16])
	a, err := parseArea("a region", le.Uint64(entry[16:]), le.Uint32(entry[24:]))
	if err != nil {
		return err
	}
	known := map[guid]*area{batRegion(): &s.bat, metadataRegion(): &s.metadata}[id]
	switch {
	case known == nil && le.Uint32(entry[28:])&1 != 0:
		return image.Refuse(image.UnsupportedFormat, "the vhdx image needs a region that this version doesn't know (%x): convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that", id)
	case known != nil && known.length != 0:
		return corrupt("its region table has the same region twice")
	case known != nil:
		*known = a
	default:
		s.unread = append(s.unread, a)
	}
	if a.length > 0 {
		s.taken = append(s.taken, a)
	}
	return nil
}

func corrupt(format string, args ...any) error { return image.Corrupt(image.VHDX, format, args...) }

func truncated(what string, offset, n int64) error { return image.CutOff(image.VHDX, what, offset, n) }
