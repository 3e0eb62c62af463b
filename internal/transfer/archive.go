package transfer

import (
	"fmt"
	"io"
	"strings"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/stream/unpack"
)

const (
	// SeveralDisks is the refusal of an archive that doesn't say which of its files is the disk.
	SeveralDisks image.Reason = "SeveralDisks"
	// NoDisk is the refusal of an archive in which no file is a disk, or none of the name that was asked for.
	NoDisk image.Reason = "NoDisk"
)

const (
	// leastRawMember is how long a file in an archive must be to be taken for a disk without any mark of a format, in
	// bytes. What is shorter is the firmware's variables or a certificate.
	leastRawMember = 1 << 20
	// maxNames is how many disks of an archive a message lists.
	maxNames = 10
)

// openArchive goes to the disk in a tar archive: the file of the name that was asked for, or else the only one that is a
// disk. Whether it is the only one shows at the archive's end, when the disk was written but not committed.
func (c *Content) openArchive() error {
	archive := unpack.Tar(c.Stream)
	wanted := c.wrapping.Member
	if c.hasArchive() {
		wanted = "" // it named a file of the outer archive
	}
	for {
		member, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
			if wanted != "" {
				return image.Refuse(NoDisk, "there is no file %q in the tar archive: %s", wanted, archive.Names())
			}
			return image.Refuse(NoDisk, "no file in the tar archive is a disk: %s", archive.Names())
		}
		if err != nil {
			return refusal(err, image.Tar)
		}
		if wanted != "" && !unpack.SameName(member.Name, wanted) {
			continue
		}
		head, whole, err := archive.Peek(image.HeadBytes)
		if err != nil {
			return refusal(err, image.Tar)
		}
		if wanted == "" && !isDisk(head, member.Length) {
			continue
		}
		if most := unpackedLimit(c.wrapping.Limits.DiskBytes); member.Length > most {
			return image.Refuse(image.TooLarge, "%.80q in the tar archive has %d bytes, more than the %d bytes that are accepted", member.Name, member.Length, most)
		}
		if limit := unpackedLimit(c.wrapping.DiskBytes); member.Length > limit {
			return image.Refuse(LargerThanDisk, "%.80q in the tar archive has %d bytes, which is far more than the disk to be filled: ask for one that is large enough", member.Name, member.Length)
		}
		c.Stream, c.Length = &refuser{r: whole, format: image.Tar}, member.Length
		if wanted == "" {
			c.finishes = append(c.finishes, func() error { return onlyDisk(archive, member.Name) })
		}
		return nil
	}
}

// onlyDisk reads an archive to its end and refuses it if there is another disk.
func onlyDisk(archive *unpack.Archive, first string) error {
	disks, more := []string{first}, 0
	for {
		member, err := archive.Next()
		if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
			break
		}
		if err != nil {
			return refusal(err, image.Tar)
		}
		head, _, err := archive.Peek(image.HeadBytes)
		if err != nil {
			return refusal(err, image.Tar)
		}
		switch {
		case !isDisk(head, member.Length):
		case len(disks) < maxNames:
			disks = append(disks, member.Name)
		default:
			more++
		}
	}
	if len(disks) == 1 {
		return nil
	}
	names := make([]string, len(disks))
	for i, name := range disks {
		names[i] = fmt.Sprintf("%.80q", name)
	}
	list := strings.Join(names, ", ")
	if more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return image.Refuse(SeveralDisks, "%d files in the tar archive are disks, %s: choose one with 'vmdisk convert --member NAME', or serve it alone", len(disks)+more, list)
}

// isDisk reports whether a file in an archive is taken for a disk, by its content.
func isDisk(head []byte, length int64) bool {
	switch image.Detect(head) {
	case image.Text, image.HTML, image.Short:
		return false
	case image.Raw:
		return length >= leastRawMember
	default:
		return true
	}
}
