package formats

import (
	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/qcow2"
	"vmdisk.io/vmdisk/internal/image/vdi"
	"vmdisk.io/vmdisk/internal/image/vhd"
	"vmdisk.io/vmdisk/internal/image/vhdx"
	"vmdisk.io/vmdisk/internal/image/vmdk"
)

// Details says what an image tells of itself in its head, as Begin takes it, also where it is refused.
func Details(head []byte) image.Details {
	switch image.Detect(head) {
	case image.QCOW2:
		return qcow2.Details(head)
	case image.VMDK:
		return vmdk.Details(head)
	case image.VHD:
		return vhd.Details(head)
	case image.VHDX:
		return vhdx.Details(head)
	case image.VDI:
		return vdi.Details(head)
	default:
		return image.Details{}
	}
}
