package vmdk

import (
	"encoding/binary"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
)

// Details reads what the header and the descriptor say, from image.HeadBytes of the image or all of it. What lies elsewhere
// or contradicts the format is left out.
func Details(head []byte) image.Details {
	if isDescriptor(head) {
		return parseDescriptor(head).details(false)
	}
	if len(head) < headerLen || string(head[:len(magic)]) != magic {
		return image.Details{}
	}
	le := binary.LittleEndian
	var d descriptor
	if at, n := le.Uint64(head[28:]), le.Uint64(head[36:]); at > 0 && n > 0 && at < uint64(len(head)/sector) {
		end := min(at+min(n, uint64(len(head))), uint64(len(head)/sector))
		d = parseDescriptor(head[at*sector : end*sector])
	}
	details := d.details(true)
	details.Variant = fmt.Sprintf("%s, version %d", details.Variant, le.Uint32(head[4:]))
	if grain := le.Uint64(head[20:]); grain > 0 && grain <= maxGrain/sector {
		details.Variant += fmt.Sprintf(", grains of %d bytes", grain*sector)
	}
	if flags(head)&flagCompressed != 0 {
		details.Compression = "deflate"
	}
	return details
}

// details says what the descriptor does. An embedded one names its own file as the disk's only sparse extent.
func (d descriptor) details(embedded bool) image.Details {
	details := image.Details{Variant: d.kind}
	if d.kind == "" {
		details.Variant = "of no kind"
	}
	if d.parent != "" && d.parent != noParent {
		details.References = append(details.References, image.Reference{Kind: "parent", Name: d.hint})
	}
	if embedded && len(d.extents) == 1 && d.extents[0].kind == "SPARSE" {
		return details
	}
	for _, e := range d.extents {
		if e.kind != "ZERO" {
			details.References = append(details.References, image.Reference{Kind: "extent", Name: e.file})
		}
	}
	return details
}
