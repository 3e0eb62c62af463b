package vhdx

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	metadataSignature = "metadata"
	metadataLen       = 64 << 10 // of the metadata table; items lie behind it
	maxItems          = 2047
	itemRequired      = 4 // of an item's flags

	minBlock = 1 << 20
	maxBlock = 256 << 20
	maxDisk  = 64 << 40

	hasParent = 2 // of the file parameters' flags

	maxLocator = 64 << 10 // how much of a parent locator is read
	maxNameLen = 1023     // how much of a parent's name is told
)

// reader reads an image for the parsers, in no particular order.
type reader interface {
	// read fills p from offset of the image, or refuses the image as truncated.
	read(p []byte, offset int64, what string) error
	// done says that the bytes from offset to end aren't wanted any more.
	done(offset, end int64)
}

// header is what reading a disk needs of an image's header section and metadata.
type header struct {
	section
	size      int64 // the disk's, in bytes
	blockSize int64
	ratio     int64 // how many blocks stand between two sector bitmaps in the block allocation table
	blocks    int64
}

// readHeader reads the header section and the metadata.
func readHeader(r reader, limits image.Limits) (header, error) {
	b := make([]byte, sectionLen)
	if err := r.read(b, 0, "the end of its header section"); err != nil {
		return header{}, err
	}
	s, err := parseSection(b)
	if err != nil {
		return header{}, err
	}
	r.done(0, mib)
	for _, a := range s.unread {
		r.done(a.offset, a.end())
	}
	h := header{section: s}
	items, err := h.readItems(r)
	if err != nil {
		return header{}, err
	}
	return h, h.parseItems(r, items, limits.WithDefaults())
}

// item is a known metadata item (2.6.2).
type item struct {
	id   guid
	name string
	// length is how many bytes it has; 0 where that varies.
	length int64
	// optional: an image need not have it.
	optional bool
}

// The metadata items.
func fileParameters() item {
	return item{id: parts(0xcaa16737, 0xfa36, 0x4d43, 0xb3b6_33f0aa44e76b), name: "file parameters", length: 8}
}

func diskSize() item {
	return item{id: parts(0x2fa54224, 0xcd1b, 0x4876, 0xb211_5dbed83bf4b8), name: "virtual disk size", length: 8}
}

func diskID() item {
	return item{id: parts(0xbeca12ab, 0xb2e6, 0x4523, 0x93ef_c309e000c746), name: "virtual disk id", length: 16}
}

func logicalSector() item {
	return item{id: parts(0x8141bf1d, 0xa96f, 0x4709, 0xba47_f233a8faab5f), name: "logical sector size", length: 4}
}

func physicalSector() item {
	return item{id: parts(0xcda348c7, 0x445d, 0x4471, 0x9cc9_e9885251c556), name: "physical sector size", length: 4}
}

func parentLocator() item {
	return item{id: parts(0xa8d35f2d, 0xb30b, 0x454d, 0xabf7_d3d84834ab0c), name: "parent locator", optional: true}
}

func knownItems() []item {
	return []item{fileParameters(), diskSize(), diskID(), logicalSector(), physicalSector(), parentLocator()}
}

// readItems finds the metadata items by the metadata table (2.6.1).
func (h *header) readItems(r reader) (map[guid]area, error) {
	table := make([]byte, metadataLen)
	if err := r.read(table, h.metadata.offset, "its metadata table"); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	count := le.Uint16(table[10:])
	if string(table[:8]) != metadataSignature || count > maxItems {
		return nil, corrupt("its metadata table is none")
	}
	known := map[guid]item{}
	for _, k := range knownItems() {
		known[k.id] = k
	}
	items := map[guid]area{}
	for i := range int(count) {
		entry := table[32+32*i:][:32]
		id := guid(entry[:16])
		k, isKnown := known[id]
		if !isKnown {
			if le.Uint32(entry[24:])&itemRequired != 0 {
				return nil, image.Refuse(image.UnsupportedFormat, "the vhdx image needs metadata that this version doesn't know (%x): convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that", id)
			}
			continue
		}
		a := area{int64(le.Uint32(entry[16:])), int64(le.Uint32(entry[20:]))}
		if _, twice := items[id]; twice || a.offset < metadataLen || a.end() > h.metadata.length || k.length != 0 && a.length != k.length {
			return nil, corrupt("its metadata item %q is %d bytes long and lies at %d of its region, or is there twice", k.name, a.length, a.offset)
		}
		items[id] = area{h.metadata.offset + a.offset, a.length}
	}
	for _, k := range knownItems() {
		if _, ok := items[k.id]; !ok && !k.optional {
			return nil, corrupt("its metadata lacks the %s", k.name)
		}
	}
	return items, nil
}

// parseItems reads the metadata items and compares them with the limits.
func (h *header) parseItems(r reader, items map[guid]area, limits image.Limits) error {
	value := func(i item) (uint64, error) {
		var b [8]byte
		err := r.read(b[:i.length], items[i.id].offset, "the metadata item "+i.name)
		return binary.LittleEndian.Uint64(b[:]), err
	}
	parameters, err := value(fileParameters())
	if err != nil {
		return err
	}
	if parameters>>32&hasParent != 0 {
		name, err := parentName(r, items[parentLocator().id])
		if err != nil {
			return err
		}
		return image.Refuse(image.BackingFile, "the vhdx image holds only its differences to a parent, %s, which is never opened: merge them (Merge-VHD in Windows) or flatten it with 'qemu-img convert -O qcow2 IN OUT', and serve that", name)
	}
	sector, err := value(logicalSector())
	if err != nil {
		return err
	}
	size, err := value(diskSize())
	if err != nil {
		return err
	}
	return h.setDisk(parameters&0xffff_ffff, sector, size, limits)
}

// setDisk takes the block's, the sector's and the disk's size in bytes.
func (h *header) setDisk(block, sector, size uint64, limits image.Limits) error {
	if block < minBlock || block > maxBlock || bits.OnesCount64(block) != 1 {
		return corrupt("its blocks have %d bytes; a power of two from %d to %d is possible", block, minBlock, maxBlock)
	}
	if sector != 512 && sector != 4096 {
		return corrupt("its sectors have %d bytes; 512 and 4096 are possible", sector)
	}
	if size > maxDisk || size%sector != 0 {
		return corrupt("its disk has %d bytes", size)
	}
	if int64(size) > limits.DiskBytes {
		return image.Refuse(image.TooLarge, "the disk in the vhdx image has %d bytes, more than the %d bytes that are accepted", size, limits.DiskBytes)
	}
	h.size, h.blockSize, h.ratio = int64(size), int64(block), int64(sector<<23/block)
	h.blocks = (h.size + h.blockSize - 1) / h.blockSize
	n := h.tableLen()
	if n > limits.TableBytes {
		return image.Refuse(image.TooLarge, "the vhdx image needs a block allocation table of %d bytes, more than the %d that are accepted: make it with larger blocks ('qemu-img convert -O vhdx -o block_size=32M IN OUT')", n, limits.TableBytes)
	}
	if n > h.bat.length {
		return corrupt("its block allocation table has %d bytes, and its disk needs %d", h.bat.length, n)
	}
	return nil
}

// parentName is the parent's name, quoted.
func parentName(r reader, a area) (string, error) {
	name, err := findParent(r, a)
	if name == "" {
		return "whose name is not where it should be", err
	}
	return strconv.Quote(name), err
}

// findParent finds a name of the parent in the parent locator (2.6.2.6). It answers an empty one where there is none.
func findParent(r reader, a area) (string, error) {
	if a.length < 20 {
		return "", nil
	}
	b := make([]byte, min(a.length, maxLocator))
	if err := r.read(b, a.offset, "its parent locator"); err != nil {
		return "", err
	}
	le := binary.LittleEndian
	names := map[string]string{}
	for i := range int(le.Uint16(b[18:])) {
		if 20+12*(i+1) > len(b) {
			break
		}
		entry := b[20+12*i:][:12]
		key, okKey := text(b, le.Uint32(entry), le.Uint16(entry[8:]))
		value, okValue := text(b, le.Uint32(entry[4:]), le.Uint16(entry[10:]))
		if okKey && okValue {
			names[key] = value
		}
	}
	for _, key := range []string{"absolute_win32_path", "relative_path", "volume_path"} {
		if name := names[key]; name != "" {
			return name[:min(len(name), maxNameLen)], nil
		}
	}
	return "", nil
}

// text reads n bytes of UTF-16 at offset of b.
func text(b []byte, offset uint32, n uint16) (string, bool) {
	if int64(offset)+int64(n) > int64(len(b)) {
		return "", false
	}
	units := make([]uint16, n/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[int(offset)+2*i:])
	}
	return string(utf16.Decode(units)), true
}
