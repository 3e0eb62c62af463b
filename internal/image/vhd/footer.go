// Package vhd reads Microsoft's virtual hard disks, version 1, after the "Virtual Hard Disk Image Format Specification"
// (2006), dynamic and fixed: anywhere (Open, OpenUnmarked) or in one forward pass (Begin, BeginUnmarked). A fixed one is a
// raw disk with a footer behind it, and nothing at its beginning tells it from one. Differencing ones are refused, and
// nothing outside the image is ever looked at.
//
// Sector bitmaps are not read, as QEMU doesn't either: what they don't mark is stored as zeros in a dynamic disk.
package vhd

import (
	"bytes"
	"encoding/binary"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	sector = image.SectorSize

	footerCookie = "conectix"
	footerLen    = 512
	oldFooterLen = 511 // before Virtual PC 2004 ("Hard Disk Footer Format")

	majorVersion = 1

	// endlessGeometry is the geometry, in sectors, of every disk that has as many or more.
	endlessGeometry = 65535 * 16 * 255
)

// Types of disks ("Disk Type").
const (
	typeFixed        = 2
	typeDynamic      = 3
	typeDifferencing = 4
)

// footer is what reading a disk needs of a footer ("Hard Disk Footer Format").
type footer struct {
	kind    uint32
	size    uint64 // of the disk, in bytes
	current uint64 // of what the image has room for, in bytes
	header  uint64 // where the dynamic disk header lies
}

// parseFooter reads a footer, which begins with its cookie.
func parseFooter(b []byte) (footer, error) {
	be := binary.BigEndian
	if len(b) < oldFooterLen || checksum(b, 64) != be.Uint32(b[64:]) {
		return footer{}, corrupt("the checksum of its footer doesn't fit")
	}
	if version := be.Uint16(b[12:]); version != majorVersion {
		return footer{}, image.Refuse(image.UnsupportedFormat, "the vhd image has version %d; version %d is read", version, majorVersion)
	}
	f := footer{kind: be.Uint32(b[60:]), size: be.Uint64(b[48:]), current: be.Uint64(b[48:]), header: be.Uint64(b[16:])}
	if n := geometry(b); n > 0 {
		f.size = n * sector
	}
	return f, nil
}

// geometry is the disk's length in sectors by cylinders, heads and sectors ("Disk Geometry"), where that is what counts,
// else 0. A machine of Virtual PC, Virtual Server or QEMU (without force_size) sees no more of its disk than that, whatever
// the field "Current Size" says. All other programs go by that field. QEMU goes by the geometry too where it doesn't know the
// program, as VirtualBox; but a disk that is cut loses data, and one that is too long only shows zeros.
func geometry(b []byte) uint64 {
	switch string(b[28:32]) { // "Creator Application"
	case "vpc ", "vs  ", "qemu":
	default:
		return 0
	}
	n := uint64(binary.BigEndian.Uint16(b[56:])) * uint64(b[58]) * uint64(b[59])
	if n == endlessGeometry {
		return 0
	}
	return n
}

// checksum is the ones' complement of the sum of all bytes but the checksum's own, which are at the given place
// ("Checksum").
func checksum(b []byte, own int) uint32 {
	var sum uint32
	for i, c := range b {
		if i < own || i >= own+4 {
			sum += uint32(c)
		}
	}
	return ^sum
}

// judgeEnd reports whether an image that begins as a raw disk is a fixed one, by its last sector, whole or not, which is
// at the given offset, and the length of its disk in bytes. It answers an *image.Refused where that is a footer, and the
// image can't be a fixed one.
func judgeEnd(last []byte, offset int64) (size int64, fixed bool, err error) {
	if !bytes.HasPrefix(last, []byte(footerCookie)) {
		return 0, false, nil
	}
	f, err := parseFooter(last)
	switch {
	case err != nil:
		return 0, false, err
	case f.kind == typeDifferencing:
		return 0, false, refuseParent("which only its beginning would name")
	case f.kind != typeFixed:
		return 0, false, corrupt("it ends as one of type %d and doesn't begin as one", f.kind)
	case f.current > uint64(offset):
		return 0, false, image.Refuse(image.Truncated, "the vhd image has %d of its disk's %d bytes: a part of it is missing", offset, f.current)
	case f.current < uint64(offset), f.size > f.current, f.size == 0:
		return 0, false, corrupt("its disk has %d bytes, in room for %d, and %d lie before its footer", f.size, f.current, offset)
	}
	return int64(f.size), true, nil
}

// lastSector is the offset of an image's last sector, whole or not.
func lastSector(length int64) int64 { return max(0, (length-1)/sector*sector) }

// refuseParent refuses an image of differences; parent says to what.
func refuseParent(parent string) error {
	return image.Refuse(image.BackingFile, "the vhd image holds only its differences to a parent, %s, which is never opened: "+
		"merge them (Merge-VHD in Windows, or 'VBoxManage clonemedium') and serve that", parent)
}

func corrupt(format string, args ...any) error { return image.Corrupt(image.VHD, format, args...) }

func truncated(what string, offset, n int64) error { return image.CutOff(image.VHD, what, offset, n) }
