package vhd

import (
	"context"
	"io"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/raw"
)

// An unmarked image has no mark of any format at its beginning. It is a raw disk, or by its end a fixed VHD.

// OpenUnmarked answers the view of the unmarked image of the given length in bytes, or an *image.Refused.
func OpenUnmarked(r io.ReaderAt, length int64) (image.Image, error) {
	last, err := readEnd(r, length)
	if err != nil {
		return nil, err
	}
	size, fixed, err := judgeEnd(last, lastSector(length))
	if err != nil {
		return nil, err
	}
	if fixed {
		return fixedView{raw.Open(r, size)}, nil
	}
	return raw.Open(r, length), nil
}

// readEnd reads the last sector, whole or not.
func readEnd(r io.ReaderAt, length int64) ([]byte, error) {
	offset := lastSector(length)
	last := make([]byte, length-offset)
	return last, image.File{R: r, Length: length, Format: image.Raw}.ReadFull(last, offset, "its last sector")
}

// fixedView is the disk in a fixed image.
type fixedView struct{ image.Mapper }

// Format implements image.Image.
func (fixedView) Format() image.Format { return image.VHD }

// BeginUnmarked answers the forward pass over the unmarked image that begins with head, which is all of it or at least
// image.HeadBytes. Its length in bytes may be image.Unknown. The end is read from random; where that is nil and the end
// isn't within head, format and size are known only after the pass: until then the format is image.Raw.
func BeginUnmarked(head []byte, length int64, random io.ReaderAt) (image.Forward, error) {
	if length < 0 && len(head) < image.HeadBytes {
		length = int64(len(head))
	}
	var last []byte
	var err error
	switch {
	case length >= 0 && length <= int64(len(head)):
		last = head[lastSector(length):length]
	case length >= 0 && random != nil:
		if last, err = readEnd(random, length); err != nil {
			return nil, err
		}
	default:
		return &unmarked{length: length, format: image.Raw, size: image.Unknown}, nil
	}
	size, fixed, err := judgeEnd(last, lastSector(length))
	if err != nil {
		return nil, err
	}
	if fixed {
		return fixedForward(size), nil
	}
	return raw.Begin(length), nil
}

// BeginFixed is BeginUnmarked for an image that somebody says is a fixed one. Any other is refused, by the pass where only
// its end tells.
func BeginFixed(head []byte, length int64, random io.ReaderAt) (image.Forward, error) {
	f, err := BeginUnmarked(head, length, random)
	switch f := f.(type) {
	case *unmarked:
		f.asked, f.format = true, image.VHD
	case fixedForward, nil:
	default:
		return nil, refuseRaw()
	}
	return f, err
}

// refuseRaw refuses a raw disk where a fixed image was asked for.
func refuseRaw() error {
	return image.Refuse(image.UnsupportedFormat, "this is a %s image, and a %s image was asked for", image.Raw, image.VHD)
}

// fixedForward is the forward pass over an image that is known to be a fixed one, with a disk of so many bytes.
type fixedForward int64

// Format implements image.Forward.
func (fixedForward) Format() image.Format { return image.VHD }

// Size implements image.Forward.
func (f fixedForward) Size() int64 { return int64(f) }

// Run implements image.Forward. It reads the stream up to the end of the disk.
func (f fixedForward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	in.Stream = io.LimitReader(in.Stream, int64(f)-in.Start)
	return raw.Begin(int64(f)).Run(ctx, in, sink)
}

// unmarked is the forward pass over an unmarked image whose end isn't known yet.
type unmarked struct {
	length int64 // of the image, or image.Unknown
	asked  bool  // for a fixed image
	format image.Format
	size   int64
}

// Format implements image.Forward.
func (u *unmarked) Format() image.Format { return u.format }

// Size implements image.Forward.
func (u *unmarked) Size() int64 { return u.size }

// Least is how many bytes of the image are the disk's for certain; see image.AtLeast.
func (u *unmarked) Least() int64 { return lastSector(max(0, u.length)) }

// Run implements image.Forward. It reads the stream to its end, and hands its last sector over only if that isn't a footer.
func (u *unmarked) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	t := &tail{r: in.Stream, end: in.Start, kept: make([]byte, 0, keptBytes)}
	in.Stream = t
	err := raw.Begin(image.Unknown).Run(ctx, in, func(p image.Piece, stored []byte) error {
		p.Mark = min(p.Mark, lastSector(t.end)) // which another pass must judge too
		return sink(p, stored)
	})
	if err != nil {
		return err
	}
	switch {
	case u.length >= 0 && t.end != u.length:
		return image.Refuse(image.Truncated, "the image ended after %d of its %d bytes", t.end, u.length)
	case !t.fixed && u.asked:
		return refuseRaw()
	case !t.fixed:
		u.size = (t.end + sector - 1) / sector * sector
	case t.size < lastSector(t.end):
		return image.Refuse(image.NeedsRandomAccess, "the vhd image was made by an old program whose disks are shorter than their image, here %d bytes, "+
			"which is only said by its end, and its source can't be read at any place: serve it from a server that answers range requests, or rewrite it with 'qemu-img convert -f vpc -O qcow2 IN OUT'", t.size)
	default:
		u.format, u.size = image.VHD, t.size
	}
	return nil
}

// keptBytes is how much of a stream its tail keeps at most.
const keptBytes = 2 * sector

// tail is a stream of an unmarked image that keeps the last sector back until it was judged.
type tail struct {
	r    io.Reader
	err  error  // how r has ended, or what it was refused for
	end  int64  // how far r was read
	kept []byte // what lies before end and wasn't handed on

	fixed bool  // what is kept is the footer of a fixed image
	size  int64 // of the disk in that
}

// Read implements io.Reader.
func (t *tail) Read(p []byte) (int, error) {
	for {
		if n := t.free(len(t.kept)); n > 0 {
			n = copy(p, t.kept[:n])
			t.kept = append(t.kept[:0], t.kept[n:]...)
			return n, nil
		}
		if t.err != nil {
			return 0, t.err
		}
		if n := t.more(p); n > 0 {
			return n, nil
		}
	}
}

// free is how many of the last n bytes before the end can be handed on.
func (t *tail) free(n int) int {
	if t.err == io.EOF && !t.fixed { //nolint:errorlint // a wrapped one is a failure
		return n
	}
	return max(0, int(lastSector(t.end)-t.end)+n)
}

// more reads on, straight into p where that is large enough, and answers how many bytes of p are handed on. What follows
// them is kept. It is called when nothing of what is kept can be handed on.
func (t *tail) more(p []byte) int {
	if len(p) < keptBytes {
		n, err := t.r.Read(t.kept[len(t.kept):cap(t.kept)])
		t.kept = t.kept[:len(t.kept)+n]
		t.end += int64(n)
		t.judge(t.kept, err)
		return 0
	}
	before := copy(p, t.kept)
	n, err := t.r.Read(p[before:])
	t.end += int64(n)
	all := p[:before+n]
	t.judge(all, err)
	give := t.free(len(all))
	t.kept = append(t.kept[:0], all[give:]...)
	return give
}

// judge takes in how reading ended, and looks at the last of the bytes that were read.
func (t *tail) judge(read []byte, err error) {
	t.err = err
	if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
		offset := lastSector(t.end)
		t.size, t.fixed, err = judgeEnd(read[len(read)-int(t.end-offset):], offset)
		if err != nil {
			t.err = err
		}
	}
}
