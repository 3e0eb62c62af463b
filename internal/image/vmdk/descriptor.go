package vmdk

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	descriptorMark = "# Disk DescriptorFile"
	noParent       = "ffffffff"

	maxDescriptor = 20 << 10 // bytes that are looked at; VMware's own have 10 KiB
	maxShown      = 4        // names of extents in a message
	maxValue      = 255      // bytes of a name in a message
)

// descriptor is what a descriptor says ("The Descriptor File").
type descriptor struct {
	kind    string // createType
	parent  string // parentCID, if there is one
	hint    string // parentFileNameHint
	extents []extent
}

// extent is a line of a descriptor's extent section.
type extent struct{ kind, file string }

func isDescriptor(b []byte) bool {
	return strings.HasPrefix(string(b[:min(len(b), 64)]), descriptorMark)
}

// parseDescriptor reads a descriptor as far as it makes sense.
func parseDescriptor(b []byte) descriptor {
	text, _, _ := strings.Cut(string(b[:min(len(b), maxDescriptor)]), "\x00")
	var d descriptor
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if e, ok := parseExtent(line); ok {
			d.extents = append(d.extents, e)
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		value = unquote(strings.TrimSpace(value))
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "createtype":
			d.kind = value
		case "parentcid":
			d.parent = strings.ToLower(value)
		case "parentfilenamehint":
			d.hint = value
		}
	}
	return d
}

// parseExtent reads an extent's line: access, sectors, kind, file and, where it is flat, an offset.
func parseExtent(line string) (extent, bool) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "RW" && words[0] != "RDONLY" && words[0] != "NOACCESS" {
		return extent{}, false
	}
	_, file, _ := strings.Cut(line, `"`)
	file, _, _ = strings.Cut(file, `"`)
	return extent{kind: words[2], file: file[:min(len(file), maxValue)]}, true
}

func unquote(value string) string {
	value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	return value[:min(len(value), maxValue)]
}

// embedded looks at the descriptor in the image, refuses what it says can't be read, and answers where it ends.
func embedded(head []byte) (int64, error) {
	le := binary.LittleEndian
	at, n := le.Uint64(head[28:]), le.Uint64(head[36:])
	const most = uint64(image.HeadBytes / sector)
	if at == 0 || n == 0 {
		return 0, refusePart()
	}
	if at > most || n > most {
		return 0, image.Refuse(image.UnsupportedFormat, "the vmdk image has its descriptor at sector %d, %d sectors long; it is only looked for in the first %d", at, n, most)
	}
	from, end := int(at*sector), int((at+n)*sector)
	if from >= len(head) {
		return 0, truncated("its descriptor", int64(from), int64(n*sector))
	}
	text := head[from:min(end, len(head))]
	if text[0] == 0 {
		return 0, refusePart()
	}
	d := parseDescriptor(text)
	switch d.kind {
	case "monolithicSparse", "streamOptimized":
	default:
		return 0, refuseDescriptor(d)
	}
	if d.parent != "" && d.parent != noParent {
		return 0, refuseParent(d)
	}
	if len(d.extents) > 1 || len(d.extents) == 1 && d.extents[0].kind != "SPARSE" {
		return 0, refuseDescriptor(d)
	}
	return int64(end), nil
}

// refusePart refuses an extent that doesn't say what disk it is a part of.
func refusePart() error {
	return image.Refuse(image.DataFile, "the vmdk image has no descriptor, so it is one part of a disk that is split into several files: join them with 'qemu-img convert -O qcow2 DISK.vmdk OUT', where DISK.vmdk is the descriptor that names the parts, and serve that")
}

func refuseParent(d descriptor) error {
	name := "whose name it doesn't hold"
	if d.hint != "" {
		name = fmt.Sprintf("%q", d.hint)
	}
	return image.Refuse(image.BackingFile, "the vmdk image holds only its differences to a parent, %s, which is never opened: join them with 'qemu-img convert -O qcow2 DISK.vmdk OUT' and serve that", name)
}

// refuseDescriptor refuses a disk whose data lies in other files, by their names.
func refuseDescriptor(d descriptor) error {
	d.extents = slices.DeleteFunc(d.extents, func(e extent) bool { return e.kind == "ZERO" })
	if d.parent != "" && d.parent != noParent {
		return refuseParent(d)
	}
	kind := "of a kind that it doesn't name"
	if d.kind != "" {
		kind = fmt.Sprintf("of the kind %q", d.kind)
	}
	advice := "join them with 'qemu-img convert -O qcow2 DISK.vmdk OUT' where all of them are, and serve that"
	switch {
	case len(d.extents) == 0:
		return image.Refuse(image.DataFile, "the vmdk file describes a disk %s and names no file with its data: serve a disk that is one file, made with 'qemu-img convert -O qcow2 DISK.vmdk OUT'", kind)
	case len(d.extents) == 1 && (d.extents[0].kind == "FLAT" || d.extents[0].kind == "VMFS"):
		advice = "serve that file, which is the raw disk, in place of this one"
	}
	var names []string
	for _, e := range d.extents[:min(len(d.extents), maxShown)] {
		names = append(names, fmt.Sprintf("%q", e.file))
	}
	if more := len(d.extents) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return image.Refuse(image.DataFile, "the vmdk file only describes a disk (%s) whose data lies elsewhere, in %s, which is never opened: %s", kind, strings.Join(names, ", "), advice)
}
