package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
)

// ScratchTooSmall is the refusal of an image that has more bytes than scratch may take.
const ScratchTooSmall image.Reason = "ScratchTooSmall"

// Scratch is where an image may be kept as a whole that can't be decoded in one pass, from a source that can't be read at any place. It is for
// nothing else. The zero Scratch is none.
type Scratch struct {
	// Dir is the directory; a file there has no name, and is gone with the transfer.
	Dir string
	// Bytes is the most that it takes; 0: as much as there is room for.
	Bytes int64
}

// wantsScratch says whether the image is to be kept before it is decoded, given what has become of reading its header. A source that passes by
// once can't be asked again when it turns out that the image can't be decoded from it. Of raw images that is known beforehand.
func (t *transfer) wantsScratch(begun error) bool {
	if t.Scratch.Dir == "" || begun != nil && !needsRandom(begun) {
		return false
	}
	return t.keeps || t.description.Once && (begun != nil || t.forward.Format() != image.Raw)
}

// needsScratch says whether a transfer has failed for want of scratch, and can be made with it.
func (t *transfer) needsScratch(err error) bool {
	return t.Scratch.Dir != "" && !t.keeps && !t.description.Once && needsRandom(err)
}

func needsRandom(err error) bool {
	var refused *image.Refused
	return errors.As(err, &refused) && refused.Reason == image.NeedsRandomAccess
}

// fillFromScratch keeps the image, and fills the target from there.
func (t *transfer) fillFromScratch(ctx context.Context, whole io.Reader) error {
	kept, err := t.keepImage(ctx, whole)
	if err != nil {
		return err
	}
	defer kept.file.Close() //nolint:errcheck // it has no name, and nobody needs it any more
	inner := t.Job
	inner.Source = kept
	inner.Checksum, inner.Member, inner.Scratch = stream.Checksum{}, "", Scratch{}
	inner.Checkpoint, inner.Resume, inner.Resumed = nil, nil, nil
	inner.Progress = func(done, total int64) { t.progressOf(total+done, 2*total) }
	report, err := Run(ctx, inner)
	t.scratched = &report
	return err
}

// keepImage writes the image, out of its wrappers, to a file, and compares the source's checksum.
func (t *transfer) keepImage(ctx context.Context, whole io.Reader) (kept *keptImage, err error) {
	if n := t.packed.Length; t.Scratch.Bytes > 0 && n > t.Scratch.Bytes {
		return nil, t.exceedsScratch(fmt.Sprintf("has %d bytes", n))
	}
	file, err := unnamed(t.Scratch.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = file.Close() // it has no name
		}
	}()
	most := t.Scratch.Bytes
	if most <= 0 {
		most = t.Limits.WithDefaults().DiskBytes
	}
	n, err := io.Copy(spool{ctx, file, t}, io.LimitReader(t.packed.Stream, most+1))
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("read %s: %w", t.description.Name, ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("keep the image in scratch: %w", err)
	case n > most:
		return nil, t.exceedsScratch("is longer")
	}
	if err := t.packed.Finish(); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, whole); err != nil { // what comes after the image counts for the checksum
		return nil, fmt.Errorf("read the rest of %s: %w", t.description.Name, err)
	}
	return &keptImage{file: file, name: t.description.Name, length: n}, nil
}

func (t *transfer) exceedsScratch(how string) error {
	return image.Refuse(ScratchTooSmall, "the %s image must be kept as a whole to be decoded, since its tables lie behind the data that they describe and its source can't be read at any place, "+
		"and it %s: scratch may take %d bytes. Allow more, serve it from a server that answers range requests, or rewrite it with 'qemu-img convert -O qcow2 IN OUT'", image.Detect(t.packed.Head), how, t.Scratch.Bytes)
}

// unnamed makes a file that is gone once it is closed.
func unnamed(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".vmdisk-scratch-")
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err != nil {
		return nil, scratchError(fmt.Sprintf("scratch can't be made in %s", dir), err)
	}
	return file, nil
}

// scratchError is an error of the directory's filesystem.
func scratchError(what string, err error) error {
	e := &target.Error{Reason: target.IO, Message: fmt.Sprintf("%s: %v", what, err), Err: err}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		e.Reason, e.Message = target.NoSpace, what+": no space is left there"
	}
	return e
}

// spool writes what is kept, and tells how far it is.
type spool struct {
	ctx      context.Context // ends the copying
	file     *os.File
	transfer *transfer
}

// Write implements io.Writer.
func (s spool) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.file.Write(p)
	if err != nil {
		return n, scratchError("scratch can't be written", err)
	}
	s.transfer.progressOf(s.transfer.counter.Bytes(), 2*max(s.transfer.description.Length, 0))
	return n, nil
}

// progressOf reports progress, if anybody wants to know.
func (t *transfer) progressOf(done, total int64) {
	if t.Progress != nil {
		t.Progress(done, total)
	}
}

// keptImage is the source that scratch is.
type keptImage struct {
	file   *os.File
	name   string
	length int64
}

// Describe implements source.Source.
func (k *keptImage) Describe(context.Context) (source.Description, error) {
	return source.Description{Name: k.name, Length: k.length, Ranges: true}, nil
}

// Open implements source.Source.
func (k *keptImage) Open(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	left := max(0, k.length-offset)
	if length < 0 || length > left {
		length = left
	}
	return io.NopCloser(io.NewSectionReader(k.file, offset, length)), nil
}

// Close implements source.Source. Whoever made the file closes it.
func (k *keptImage) Close() error { return nil }
