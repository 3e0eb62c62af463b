package qcow2

import (
	"encoding/binary"
	"fmt"

	"vmdisk.io/vmdisk/internal/image"
)

// Details reads what the header says ("Header"), from image.HeadBytes of the image or all of it. What lies elsewhere or
// contradicts the format is left out.
func Details(head []byte) image.Details {
	if len(head) < v2HeaderLen {
		return image.Details{}
	}
	be := binary.BigEndian
	version, bits := be.Uint32(head[4:]), be.Uint32(head[20:])
	d := image.Details{Variant: fmt.Sprintf("version %d", version), Compression: "zlib"}
	if bits >= minClusterBits && bits <= maxClusterBits {
		d.Variant += fmt.Sprintf(", clusters of %d bytes", int64(1)<<bits)
	}
	if offset, n := be.Uint64(head[8:]), uint64(be.Uint32(head[16:])); offset != 0 && n <= maxNameLen && offset <= uint64(len(head)) && offset+n <= uint64(len(head)) {
		d.References = append(d.References, image.Reference{Kind: "backing file", Name: string(head[offset : offset+n])})
	}
	if n := be.Uint32(head[60:]); n > 0 {
		d.Variant += fmt.Sprintf(", %d internal snapshots", n)
	}
	if be.Uint32(head[32:]) != 0 {
		d.Variant += ", encrypted"
	}
	if version < 3 || len(head) < v3HeaderLen {
		return d
	}
	features, headerLen := be.Uint64(head[72:]), be.Uint32(head[100:])
	if features&featureExtendedL2 != 0 {
		d.Variant += ", extended L2 entries"
	}
	if features&featureDirty != 0 {
		d.Variant += ", marked as dirty"
	}
	if features&featureCorrupt != 0 {
		d.Variant += ", marked as corrupt"
	}
	if features&featureCompression != 0 && headerLen > v3HeaderLen && len(head) > v3HeaderLen && head[v3HeaderLen] == 1 {
		d.Compression = "zstd"
	}
	if features&featureDataFile != 0 {
		body := extension(head, headerLen, extensionDataFile)
		d.References = append(d.References, image.Reference{Kind: "data file", Name: string(body[:min(len(body), maxNameLen)])})
	}
	return d
}
