package qcow2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"vmdisk.io/vmdisk/internal/image"
)

// Header extensions ("Header extensions").
const (
	extensionEnd      = 0
	extensionFeatures = 0x6803f857
	extensionDataFile = 0x44415441
)

const (
	featureNameLen        = 48
	featureIncompatible   = 0
	maxExtensions         = 256
	maxUnknownFeatureName = 46
)

// extension is the body of the first header extension of the given type, or nil. Bodies that don't lie within head are
// not looked at.
func extension(head []byte, headerLen uint32, kind uint32) []byte {
	at := uint64(headerLen)
	for range maxExtensions {
		if at+8 > uint64(len(head)) {
			return nil
		}
		k := binary.BigEndian.Uint32(head[at:])
		n := uint64(binary.BigEndian.Uint32(head[at+4:]))
		at += 8
		if k == extensionEnd || at+n > uint64(len(head)) {
			return nil
		}
		if k == kind {
			return head[at : at+n]
		}
		at += (n + 7) &^ 7
	}
	return nil
}

// featureNames reads the names of incompatible features by their bit ("Feature name table").
func featureNames(head []byte, headerLen uint32) map[int]string {
	names := map[int]string{}
	table := extension(head, headerLen, extensionFeatures)
	for ; len(table) >= featureNameLen; table = table[featureNameLen:] {
		if table[0] == featureIncompatible && table[1] < 64 {
			name, _, _ := bytes.Cut(table[2:2+maxUnknownFeatureName], []byte{0})
			names[int(table[1])] = string(name)
		}
	}
	return names
}

// refuseFeatures names the features that an image needs and this version doesn't know.
func refuseFeatures(unknown uint64, names map[int]string) error {
	var list []string
	for ; unknown != 0; unknown &= unknown - 1 {
		bit := bits.TrailingZeros64(unknown)
		if name := names[bit]; name != "" {
			list = append(list, fmt.Sprintf("%q", name))
		} else {
			list = append(list, fmt.Sprintf("bit %d", bit))
		}
	}
	return image.Refuse(image.UnsupportedFormat, "the qcow2 image needs features that this version doesn't know (%s): convert it with 'qemu-img convert -O qcow2 IN OUT' and serve that", strings.Join(list, ", "))
}

// refuseDataFile refuses an image whose data lies in another file ("External data file name string").
func refuseDataFile(head []byte, headerLen uint32) error {
	name := "whose name it doesn't hold"
	if body := extension(head, headerLen, extensionDataFile); body != nil {
		name = fmt.Sprintf("%q", body[:min(len(body), maxNameLen)])
	}
	return image.Refuse(image.DataFile, "the qcow2 image keeps its data in an external file, %s, which is never opened: join them with 'qemu-img convert -O qcow2 IN OUT' and serve that", name)
}
