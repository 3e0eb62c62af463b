// Package raw reads the image that is the disk itself. It must not know where it comes from or goes to, nor look at what is
// on the disk: whether it is a raw disk was judged before.
package raw

import (
	"context"
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// blockBytes is the length of the pieces that Run hands over.
const blockBytes = 1 << 20

type view struct {
	io.ReaderAt
	length int64
}

// Open answers the view of a raw image of the given length in bytes. The disk is as long as the image, rounded up to a
// whole sector.
func Open(r io.ReaderAt, length int64) image.Mapper { return &view{ReaderAt: r, length: length} }

// Format implements image.Image.
func (v *view) Format() image.Format { return image.Raw }

// Size implements image.Image.
func (v *view) Size() int64 { return roundUp(v.length) }

// ReadAt implements image.Image.
func (v *view) ReadAt(p []byte, offset int64) (int, error) {
	if offset >= v.Size() {
		return 0, io.EOF
	}
	want := int(min(int64(len(p)), v.Size()-offset))
	n, err := v.ReaderAt.ReadAt(p[:want], offset)
	if n < want && err == io.EOF && offset+int64(n) >= v.length {
		clear(p[n:want]) // the rest of the last sector
		n, err = want, nil
	}
	if err == nil && want < len(p) {
		err = io.EOF
	}
	return n, err
}

// Next implements image.Image.
func (v *view) Next(offset int64) (image.Extent, error) {
	if offset < 0 || offset >= v.Size() {
		return image.Extent{}, io.EOF
	}
	n, hole, err := v.hole(offset)
	return image.Extent{Start: offset, Len: n, Zero: hole}, err
}

// hole answers how long the hole, or the run that is none, that begins at offset of the disk is.
func (v *view) hole(offset int64) (n int64, hole bool, err error) {
	finder, ok := v.ReaderAt.(image.HoleFinder)
	if !ok || offset >= v.length {
		return v.Size() - offset, false, nil
	}
	n, hole, err = finder.Hole(offset)
	if err != nil {
		return 0, false, fmt.Errorf("find the holes of the raw image: %w", err)
	}
	if offset+n >= v.length {
		n = v.Size() - offset // the rest of the last sector
	}
	return n, hole, nil
}

// Map implements image.Mapper.
func (v *view) Map(offset int64) (image.Mapping, error) {
	x, err := v.Next(offset)
	return image.Mapping{Start: x.Start, Len: x.Len, Present: true, Zero: x.Zero, Data: !x.Zero, Offset: offset}, err
}

func roundUp(n int64) int64 {
	return (n + image.SectorSize - 1) / image.SectorSize * image.SectorSize
}

// Begin answers the forward pass over a raw image of the given length in bytes, which may be image.Unknown.
func Begin(length int64) image.Forward { return forward{length} }

type forward struct{ length int64 }

// Format implements image.Forward.
func (forward) Format() image.Format { return image.Raw }

// Size implements image.Forward.
func (f forward) Size() int64 {
	if f.length < 0 {
		return image.Unknown
	}
	return roundUp(f.length)
}

// Run implements image.Forward. It reads the stream to its end, and refuses it where that is not where it should be.
func (f forward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	if in.Sparse != nil && f.length >= 0 {
		return f.runSparse(ctx, in, sink)
	}
	block := make([]byte, blockBytes)
	offset := in.Start
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(in.Stream, block)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { // a wrapped one is a failure
			return fmt.Errorf("read the raw image at offset %d: %w", offset, err)
		}
		if n > 0 {
			if err := f.give(sink, offset, block[:n], n < len(block)); err != nil {
				return err
			}
			offset += int64(n)
		}
		if err != nil {
			break
		}
	}
	if f.length >= 0 && offset != f.length {
		return image.Refuse(image.Truncated, "the raw image ended after %d of its %d bytes", offset, f.length)
	}
	return nil
}

// runSparse reads what isn't a hole.
func (f forward) runSparse(ctx context.Context, in image.Input, sink image.Sink) error {
	block := make([]byte, blockBytes)
	for offset := in.Start; offset < f.length; {
		run, hole, err := in.Sparse.Hole(offset)
		if err != nil {
			return fmt.Errorf("find the holes of the raw image: %w", err)
		}
		end := min(offset+max(run, 1), f.length)
		for offset = skip(offset, end, hole); offset < end; {
			if err := ctx.Err(); err != nil {
				return err
			}
			part := block[:min(blockBytes, end-offset)]
			if err := read(in.Sparse, part, offset); err != nil {
				return err
			}
			if err := f.give(sink, offset, part, false); err != nil {
				return err
			}
			offset += int64(len(part))
		}
	}
	if f.length == 0 {
		return nil
	}
	return read(in.Sparse, block[:1], f.length-1) // a file that was cut short looks like one that ends in a hole
}

// skip is where reading goes on from offset in a run that ends at end.
func skip(offset, end int64, hole bool) int64 {
	if hole {
		return end
	}
	return offset
}

func read(r io.ReaderAt, p []byte, offset int64) error {
	if n, err := r.ReadAt(p, offset); n < len(p) {
		return fmt.Errorf("read the raw image at offset %d: %w", offset, err)
	}
	return nil
}

// give hands one block over. The mark of the image's last block is its beginning.
func (f forward) give(sink image.Sink, offset int64, block []byte, last bool) error {
	mark := offset + int64(len(block))
	if last || mark == f.length {
		mark = offset
	}
	return sink(image.Piece{Offset: offset, Len: len(block), Full: len(block), Mark: mark}, block)
}
