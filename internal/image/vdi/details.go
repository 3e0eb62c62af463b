package vdi

import (
	"encoding/binary"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
)

// Details reads what the header says, from image.HeadBytes of the image or all of it. A parent has no name but its
// identifier.
func Details(head []byte) image.Details {
	if len(head) < headerLen {
		return image.Details{}
	}
	kind := binary.LittleEndian.Uint32(head[atType:])
	name, ok := map[uint32]string{typeDynamic: "dynamic", typeStatic: "static", typeUndo: "undo", typeDifferences: "differences"}[kind]
	if !ok {
		name = fmt.Sprintf("type %d", kind)
	}
	d := image.Details{Variant: fmt.Sprintf("%s, blocks of %d bytes", name, binary.LittleEndian.Uint32(head[atBlockSize:]))}
	if isPart(head) {
		d.References = []image.Reference{{Kind: "parent", Name: uuid(head[atLink:])}}
	}
	return d
}
