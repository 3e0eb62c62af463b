package transfer

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/formats"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/stream/unpack"
)

// BadWrapper is the refusal of a wrapper whose own checksums or structure are wrong.
const BadWrapper image.Reason = "CorruptWrapper"

const (
	// maxWrappers is how many wrappers may lie around an image.
	maxWrappers = 4
	// aheadBytes is how much a wrapper that is unpacked by one goroutine has ready, in each of a few parts.
	aheadBytes = 256 << 10
)

// Wrapping says how an image is to be taken out of its wrappers.
type Wrapping struct {
	// Length is how many bytes there are with all wrappers, or image.Unknown.
	Length int64
	// Format is what the image must be. With image.Raw, wrappers are a part of it, save for those around Member.
	Format image.Format
	// Member names the image's file in a tar archive. Empty: exactly one file there must be a disk.
	Member string
	// DiskBytes is the largest disk that there is room for; 0 for what Limits allow.
	DiskBytes int64
	// Limits bound what the wrappers and the image can make us do.
	Limits image.Limits
}

// Content is an image, out of its wrappers.
type Content struct {
	// Stream is the image from its first byte, and Head is its beginning, as much of it as its format wants.
	Stream io.Reader
	Head   []byte
	// Length is the image's length in bytes, or image.Unknown.
	Length int64
	// Wrappers are outermost first.
	Wrappers []image.Format

	wrapping Wrapping
	finishes []func() error
	closes   []func() error
	served   *stream.Counter // bytes of the outermost wrapper
	packings int             // how many wrappers aren't archives
	windowed unpack.Windowed // the innermost packing, if it has a window
	memory   int64           // what is left of the memory limit, in bytes
}

// Unwrap opens wrapper after wrapper of what r reads, by what they are and not by their names, until what is left is none. Each
// is read forward: the image can't be read anywhere then. The caller closes the Content, also after an error. Errors are those of
// r and *image.Refused.
func Unwrap(r io.Reader, w Wrapping) (*Content, error) {
	w.Limits = w.Limits.WithDefaults()
	if w.DiskBytes <= 0 {
		w.DiskBytes = w.Limits.DiskBytes
	}
	served := stream.Count(r)
	c := &Content{Stream: served, Length: w.Length, wrapping: w, served: served, memory: w.Limits.MemoryBytes}
	for {
		if err := c.peek(); err != nil {
			return c, err
		}
		format := image.Detect(c.Head)
		if !IsWrapper(format) || w.Format == image.Raw && (w.Member == "" || c.hasArchive()) {
			break
		}
		if len(c.Wrappers) == maxWrappers {
			return c, image.Refuse(image.UnsupportedFormat, "more than %d wrappers lie around the image, one in the other (%s in the end): unpack it and serve the disk image itself", maxWrappers, format)
		}
		if err := c.open(format); err != nil {
			return c, err
		}
		c.Wrappers = append(c.Wrappers, format)
	}
	c.shareMemory()
	if w.Member != "" && !c.hasArchive() {
		return c, image.Refuse(NoDisk, "the file %q was asked for, but the source is no tar archive: leave out the name", w.Member)
	}
	return c, nil
}

// peek looks at the content's beginning, as far as its format needs.
func (c *Content) peek() error {
	for want := image.HeadBytes; ; {
		head, whole, err := stream.Peek(c.Stream, want)
		if err != nil {
			return err
		}
		c.Head, c.Stream = head, whole
		more := formats.Wants(head)
		if more <= want || len(head) < want {
			return nil
		}
		want = more
	}
}

// IsWrapper reports whether a format is one that Unwrap opens.
func IsWrapper(f image.Format) bool {
	switch f {
	case image.Gzip, image.XZ, image.Zstandard, image.Bzip2, image.Tar:
		return true
	default:
		return false
	}
}

// hasArchive reports whether one of the wrappers is an archive. A member's name is for the outermost.
func (c *Content) hasArchive() bool { return slices.Contains(c.Wrappers, image.Tar) }

// open opens one wrapper.
func (c *Content) open(format image.Format) error {
	if format == image.Tar {
		return c.openArchive()
	}
	c.settleMemory()
	c.packings++
	options := unpack.Options{MemoryBytes: c.memory, Workers: 1}
	var unpacked io.ReadCloser
	switch format {
	case image.Gzip:
		unpacked = stream.ReadAhead(unpack.Gzip(c.Stream), aheadBytes)
	case image.Bzip2:
		unpacked = stream.ReadAhead(unpack.Bzip2(c.Stream), aheadBytes)
	case image.XZ:
		c.windowed = unpack.XZ(c.Stream, options)
		unpacked = c.windowed
	case image.Zstandard:
		options.Workers = runtime.GOMAXPROCS(0) // which makes no difference to its window
		z, err := unpack.Zstd(c.Stream, options)
		if err != nil {
			return err
		}
		c.windowed, unpacked = z, z
	}
	bounded := stream.Limit(unpacked, unpackedLimit(c.wrapping.DiskBytes))
	if c.packings > 1 {
		bounded = &nested{r: bounded, served: c.served}
	}
	limited := &refuser{r: bounded, format: format}
	c.Stream, c.Length = limited, image.Unknown
	c.closes = append(c.closes, unpacked.Close)
	c.finishes = append(c.finishes, func() error {
		if _, err := io.Copy(io.Discard, limited); err != nil {
			return fmt.Errorf("read the rest of the %s stream: %w", format, err)
		}
		return nil
	})
	return nil
}

// settleMemory leaves the innermost packing what it has taken, and no more, before another one is opened in it.
func (c *Content) settleMemory() {
	if c.windowed == nil {
		return
	}
	held := min(c.windowed.Held(), c.memory)
	c.windowed.Confine(unpack.Options{MemoryBytes: held})
	c.memory -= held
	c.windowed = nil
}

// shareMemory shares what is left between the innermost packing and the image. A packing that is the only one may use all of it
// and all cores: images are seldom out of order and packed.
func (c *Content) shareMemory() {
	if c.windowed == nil {
		return
	}
	half := c.memory / 2
	if c.packings == 1 {
		c.windowed.Confine(unpack.Options{MemoryBytes: c.memory, Workers: runtime.GOMAXPROCS(0)})
	} else {
		c.windowed.Confine(unpack.Options{MemoryBytes: max(half, c.windowed.Held())})
	}
	c.memory = half
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

// Finish reads each wrapper to its end, from the innermost on, so that what they say of themselves there was checked.
func (c *Content) Finish() error {
	for i := len(c.finishes) - 1; i >= 0; i-- {
		if err := c.finishes[i](); err != nil {
			return err
		}
	}
	return nil
}

// Close gives back what the wrappers hold.
func (c *Content) Close() error {
	var errs []error
	for i := len(c.closes) - 1; i >= 0; i-- {
		errs = append(errs, c.closes[i]())
	}
	c.closes = nil
	return errors.Join(errs...)
}

const (
	// maxRatio is how many times its length a file may unpack to that is packed several times over: about what gzip can reach by
	// itself. A disk with anything in it stays far below that; one packing around another makes any number of zeros of nothing.
	maxRatio = 1 << 10
	// leastBomb is how many bytes it may unpack to whatever its length.
	leastBomb = 64 << 20
)

// nested reads what was packed several times over.
type nested struct {
	r        io.Reader
	served   *stream.Counter
	unpacked int64
}

// Read implements io.Reader.
func (n *nested) Read(p []byte) (int, error) {
	got, err := n.r.Read(p)
	if n.unpacked += int64(got); n.unpacked > max(leastBomb, maxRatio*n.served.Bytes()) {
		return 0, image.Refuse(image.TooLarge, "the file is packed several times over and unpacks to more than %d times its length, as one that is made to keep its reader busy does: pack the disk once", maxRatio)
	}
	return got, err
}

// refuser turns the errors of a wrapper into refusals.
type refuser struct {
	r      io.Reader
	format image.Format
}

// Read implements io.Reader.
func (r *refuser) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // a wrapped one is a failure
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
