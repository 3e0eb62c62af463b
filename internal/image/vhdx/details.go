package vhdx

import (
	"encoding/binary"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
)

// hasFixedBlocks is the flag of the file parameters that says that every block has its place (2.6.2.1).
const hasFixedBlocks = 1

// Details reads what the header section and the metadata say, from as many of the image's first bytes as Wants asks for.
// What lies elsewhere or contradicts the format is left out.
func Details(head []byte) image.Details {
	var d image.Details
	r := begin{head, image.Unknown}
	b := make([]byte, sectionLen)
	if r.read(b, 0, "") != nil { // whatever is not there isn't told
		return d
	}
	s, err := parseSection(b)
	if err != nil {
		return d
	}
	h := header{section: s}
	items, err := h.readItems(r)
	if err != nil {
		return d
	}
	var parameters [8]byte
	var sector [4]byte
	if r.read(parameters[:], items[fileParameters().id].offset, "") != nil || r.read(sector[:], items[logicalSector().id].offset, "") != nil {
		return d
	}
	le := binary.LittleEndian
	flags := le.Uint32(parameters[4:])
	d.Variant = "dynamic"
	if flags&hasFixedBlocks != 0 {
		d.Variant = "fixed"
	}
	d.Variant += fmt.Sprintf(", blocks of %d bytes, sectors of %d bytes", le.Uint32(parameters[:]), le.Uint32(sector[:]))
	if flags&hasParent != 0 {
		name, err := findParent(r, items[parentLocator().id])
		if err == nil {
			d.References = append(d.References, image.Reference{Kind: "parent", Name: name})
		}
	}
	return d
}
