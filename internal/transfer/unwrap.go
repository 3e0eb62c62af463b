package transfer

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/formats"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/stream/unpack"
)

const (
	// SeveralDisks is the refusal of an archive that doesn't say which of its files is the disk.
	SeveralDisks image.Reason = "SeveralDisks"
	// NoDisk is the refusal of an archive in which no file is a disk, or none of the name that was asked for.
	NoDisk image.Reason = "NoDisk"
	// BadWrapper is the refusal of a wrapper whose own checksums or structure are wrong.
	BadWrapper image.Reason = "CorruptWrapper"
)

const (
	// maxWrappers is how many wrappers may lie around an image.
	maxWrappers = 4
	// leastRawMember is how long a file in an archive must be to be taken for a disk without any mark of a format, in
	// bytes. What is shorter is the firmware's variables or a certificate.
	leastRawMember = 1 << 20
	// aheadBytes is how much a wrapper that is unpacked by one goroutine has ready, in each of a few parts.
	aheadBytes = 256 << 10
	// maxNames is how many disks of an archive a message lists.
	maxNames = 10
)

// content is an image, out of its wrappers.
type content struct {
	// stream is the image from its first byte, and head is its beginning, as much of it as its format wants.
	stream io.Reader
	head   []byte
	// length is the image's length in bytes, or image.Unknown.
	length   int64
	wrappers []image.Format // outermost first
	finishes []func() error
	closes   []func() error
	// memory is what is left of the memory limit, in bytes.
	memory int64
}

// unwrap opens wrapper after wrapper, by what they are and not by their names, until what is left is none. Each is read
// forward: the image can't be read anywhere then. The caller closes the content, also after an error.
func (t *transfer) unwrap(whole io.Reader) (*content, error) {
	c := &content{stream: whole, length: t.description.Length, memory: t.Limits.WithDefaults().MemoryBytes}
	for {
		if err := t.peek(c); err != nil {
			return c, err
		}
		format := image.Detect(c.head)
		if !isWrapper(format) {
			break
		}
		if len(c.wrappers) == maxWrappers {
			return c, image.Refuse(image.UnsupportedFormat, "more than %d wrappers lie around the image, one in the other (%s in the end): unpack it and serve the disk image itself", maxWrappers, format)
		}
		if err := t.openWrapper(c, format); err != nil {
			return c, err
		}
		c.wrappers = append(c.wrappers, format)
	}
	if t.Member != "" && t.archive(c.wrappers) < 0 {
		return c, image.Refuse(NoDisk, "the file %q was asked for, but the source is no tar archive: leave out the name", t.Member)
	}
	return c, nil
}

// peek looks at the content's beginning, as far as its format needs.
func (t *transfer) peek(c *content) error {
	for want := image.HeadBytes; ; {
		head, whole, err := stream.Peek(c.stream, want)
		if err != nil {
			return fmt.Errorf("read %s: %w", t.description.Name, err)
		}
		c.head, c.stream = head, whole
		more := formats.Wants(head)
		if more <= want || len(head) < want {
			return nil
		}
		want = more
	}
}

func isWrapper(f image.Format) bool {
	switch f {
	case image.Gzip, image.XZ, image.Zstandard, image.Bzip2, image.Tar:
		return true
	default:
		return false
	}
}

// archive is which of the wrappers is the archive that the member's name is for, -1 for none.
func (*transfer) archive(wrappers []image.Format) int {
	for i, w := range wrappers {
		if w == image.Tar {
			return i
		}
	}
	return -1
}

// openWrapper opens one wrapper.
func (t *transfer) openWrapper(c *content, format image.Format) error {
	if format == image.Tar {
		return t.openArchive(c)
	}
	options := unpack.Options{MemoryBytes: c.memory, Workers: runtime.GOMAXPROCS(0)}
	var unpacked io.ReadCloser
	switch format {
	case image.Gzip:
		unpacked = stream.ReadAhead(unpack.Gzip(c.stream), aheadBytes)
	case image.Bzip2:
		unpacked = stream.ReadAhead(unpack.Bzip2(c.stream), aheadBytes)
	case image.XZ:
		unpacked = unpack.XZ(c.stream, options)
		c.memory /= 2 // the next one that needs a window has half, so that all of them together are bounded
	case image.Zstandard:
		z, err := unpack.Zstd(c.stream, options)
		if err != nil {
			return err
		}
		unpacked = z
		c.memory /= 2 // likewise
	}
	limited := &refuser{r: stream.Limit(unpacked, unpackedLimit(t.Target.Size())), format: format}
	c.stream, c.length = limited, image.Unknown
	c.closes = append(c.closes, unpacked.Close)
	c.finishes = append(c.finishes, func() error {
		if _, err := io.Copy(io.Discard, limited); err != nil {
			return fmt.Errorf("read the rest of the %s stream: %w", format, err)
		}
		return nil
	})
	return nil
}

// unpackedLimit is how many bytes a wrapper may unpack to for a disk of the given size. An image may be larger than its
// disk: it has tables, and may have snapshots.
func unpackedLimit(disk int64) int64 {
	const most = 1 << 60
	if disk > most/4 {
		return most
	}
	return 4*disk + 256<<20
}

// openArchive goes to the disk in a tar archive: the file of the name that was asked for, or else the only one that is a
// disk. Whether it is the only one shows at the archive's end, when the disk was written but not committed.
func (t *transfer) openArchive(c *content) error {
	archive := unpack.Tar(c.stream)
	wanted := t.Member
	if t.archive(c.wrappers) >= 0 {
		wanted = "" // it named a file of the outer archive
	}
	for {
		member, err := archive.Next()
		if err == io.EOF {
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
		if limit := unpackedLimit(t.Target.Size()); member.Length > limit {
			return image.Refuse(LargerThanDisk, "%.80q in the tar archive has %d bytes, which is far more than the disk to be filled: ask for one that is large enough", member.Name, member.Length)
		}
		c.stream, c.length = &refuser{r: whole, format: image.Tar}, member.Length
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
		if err == io.EOF {
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

// finish reads each wrapper to its end, from the innermost on, so that what they say of themselves there was checked.
func (c *content) finish() error {
	for i := len(c.finishes) - 1; i >= 0; i-- {
		if err := c.finishes[i](); err != nil {
			return err
		}
	}
	return nil
}

// close gives back what the wrappers hold.
func (c *content) close() error {
	var errs []error
	for i := len(c.closes) - 1; i >= 0; i-- {
		errs = append(errs, c.closes[i]())
	}
	c.closes = nil
	return errors.Join(errs...)
}

// refuser turns the errors of a wrapper into refusals.
type refuser struct {
	r      io.Reader
	format image.Format
}

// Read implements io.Reader.
func (r *refuser) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF { // a wrapped one is a failure
		err = refusal(err, r.format)
	}
	return n, err
}

// refusal turns the errors of a wrapper into a refusal, and answers others as they are.
func refusal(err error, format image.Format) error {
	var tooLong *stream.TooLongError
	if errors.As(err, &tooLong) {
		return image.Refuse(image.TooLarge, "the %s stream unpacks to more than %d bytes, which is far more than the disk to be filled: ask for one that is large enough", format, tooLong.LimitBytes)
	}
	var wrong *stream.FormatError
	if !errors.As(err, &wrong) {
		return err
	}
	reason := BadWrapper
	switch wrong.Kind {
	case stream.Truncated:
		reason = image.Truncated
	case stream.Unsupported:
		reason = image.UnsupportedFormat
	case stream.TooMuchMemory:
		reason = image.TooLarge
	}
	return &image.Refused{Reason: reason, Message: wrong.Message}
}
