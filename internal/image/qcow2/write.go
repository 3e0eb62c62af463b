package qcow2

import (
	"bufio"
	"context"
	"errors"
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// WriterOptions say how an image is written.
type WriterOptions struct {
	// Workers is how many goroutines compress; at least 1. The image doesn't depend on it.
	Workers int
	// Progress is called now and then, by one goroutine at a time, with how many of the disk's bytes were packed of how
	// many. May be nil.
	Progress func(done, total int64)
}

// Writer writes a disk as a qcow2 image of version 3, with clusters that are packed by Zstandard. What is zero isn't stored.
//
// The image has everything that its reader needs before the data, so that it can be read in one forward pass:
//
//	header | refcount table | L1 table | L2 tables | data, in the disk's order | refcounts
//
// How long that front is follows from the disk's extents, but what is in it follows from how far each cluster can be packed.
// So the data are packed first, and their sizes remembered: two bytes for each cluster in use. Into a file they are
// written behind the room that is left for the front, and then the front before them. A pipe can't go back, and the packed
// disk must lie neither in memory nor in a second file; so for a pipe the data are packed twice: once for their sizes, and
// once more to be written behind the front. Both ways give the same bytes, and they are the same again for the same disk.
//
// Refcounts, which no reader needs, come last: by then it is known how many there are.
type Writer struct {
	disk    image.Image
	options WriterOptions
	layout  layout
}

// NewWriter looks at the disk's extents. Nothing is written yet.
func NewWriter(disk image.Image, o WriterOptions) (*Writer, error) {
	l, err := newLayout(disk)
	if err != nil {
		return nil, err
	}
	o.Workers = max(o.Workers, 1)
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	return &Writer{disk: disk, options: o, layout: l}, nil
}

// WriteFile writes the image to a file that is empty, and answers its length in bytes.
func (w *Writer) WriteFile(ctx context.Context, out io.WriterAt) (int64, error) {
	if err := w.packSizes(ctx, io.NewOffsetWriter(out, w.layout.front())); err != nil {
		return 0, err
	}
	if err := w.layout.writeFront(io.NewOffsetWriter(out, 0)); err != nil {
		return 0, err
	}
	return w.layout.length(), w.layout.writeRefcounts(io.NewOffsetWriter(out, w.layout.dataEnd()))
}

// WriteStream writes the image from its first byte to its last, and answers its length. The disk is read twice.
func (w *Writer) WriteStream(ctx context.Context, out io.Writer) (int64, error) {
	if err := w.packSizes(ctx, io.Discard); err != nil {
		return 0, err
	}
	if err := w.layout.writeFront(out); err != nil {
		return 0, err
	}
	end, err := w.pack(ctx, out, w.layout.compare)
	if err == nil && end != w.layout.end {
		err = ErrChanged
	}
	if err != nil {
		return 0, err
	}
	if err := writeZeros(out, w.layout.dataEnd()-end); err != nil {
		return 0, err
	}
	return w.layout.length(), w.layout.writeRefcounts(out)
}

// ErrChanged is the error of a disk that isn't the same the second time that it is read.
var ErrChanged = errors.New("the disk was changed while it was being read: wait until whatever writes to it is done, and try again")

// packSizes packs the disk to out, and remembers the sizes.
func (w *Writer) packSizes(ctx context.Context, out io.Writer) (err error) {
	w.layout.end, err = w.pack(ctx, out, w.layout.remember)
	return err
}

// pack packs the whole disk, and writes what is stored of it to out, which begins behind the front. note is told the size of
// each cluster. The answer is where in the image the last of them ends.
func (w *Writer) pack(ctx context.Context, out io.Writer, note func(cluster int64, s storedSize) error) (end int64, err error) {
	l := &w.layout
	buffered := bufio.NewWriterSize(out, batchBytes)
	end = l.front()
	p := packer{layout: l, disk: w.disk, workers: w.options.Workers}
	err = p.run(ctx, func(b *batch) error {
		for i, s := range b.sizes {
			if err := note(b.first+int64(i), s); err != nil {
				return err
			}
			if s == isHole {
				continue
			}
			at := l.place(end, s)
			if err := writeZeros(buffered, at-end); err != nil {
				return err
			}
			if _, err := buffered.Write(b.stored(i)); err != nil {
				return err
			}
			end = at + l.bytes(s)
		}
		w.options.Progress(min((b.first+int64(len(b.sizes)))<<l.clusterBits, l.size), l.size)
		return nil
	})
	if err == nil {
		err = buffered.Flush()
	}
	return end, err
}

// writeZeros writes n zeros.
func writeZeros(out io.Writer, n int64) error {
	zeros := make([]byte, min(n, 64<<10))
	for n > 0 {
		wrote, err := out.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(wrote)
	}
	return nil
}
