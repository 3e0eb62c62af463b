package vhd

import (
	"encoding/binary"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
)

// Details reads what the footer's copy and the header of an image say that begins with them, from image.HeadBytes of it or
// all. What lies elsewhere or contradicts the format is left out.
func Details(head []byte) image.Details {
	f, b, err := parseBeginning(head)
	if err != nil {
		return image.Details{}
	}
	d := image.Details{Variant: "dynamic"}
	if f.kind == typeDifferencing {
		d.Variant = "differencing"
		d.References = []image.Reference{{Kind: "parent", Name: parentName(b)}}
	}
	d.Variant += fmt.Sprintf(", blocks of %d bytes", binary.BigEndian.Uint32(b[32:]))
	return d
}
