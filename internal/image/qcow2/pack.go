package qcow2

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	// batchBytes is how much of the disk is read and packed at a time, unless a cluster is larger.
	batchBytes = 1 << 20
	// spareBatches is how many batches there are besides those that are being packed.
	spareBatches = 3
)

// batch is neighbouring clusters of the disk.
type batch struct {
	first  int64 // the first one's number
	plain  []byte
	packed []byte
	sizes  []storedSize
	ends   []int // of each cluster in packed
	done   chan error
}

// stored is the bytes that are stored of the i-th cluster, which is no hole.
func (b *batch) stored(i int) []byte {
	if b.sizes[i] == isPlain {
		n := len(b.plain) / len(b.sizes)
		return b.plain[i*n : (i+1)*n]
	}
	from := 0
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.packed[from:b.ends[i]]
}

// packer reads a disk and packs it, several batches at a time.
type packer struct {
	layout  *layout
	disk    image.Image
	workers int
}

// run hands the batches to take, in the disk's order. They are only valid during the call.
func (p *packer) run(ctx context.Context, take func(*batch) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel(nil)
	free := make(chan *batch, p.workers+spareBatches)
	for range cap(free) {
		free <- &batch{done: make(chan error, 1)}
	}
	work, order := make(chan *batch), make(chan *batch, cap(free))
	group.Go(func() {
		defer close(order)
		defer close(work)
		if err := p.feed(ctx, free, work, order); err != nil {
			cancel(err)
		}
	})
	for range p.workers {
		group.Go(func() { p.serve(work) })
	}
	for b := range order {
		select {
		case err := <-b.done:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := take(b); err != nil {
			return err
		}
		free <- b // there is always room: it holds all batches
	}
	return context.Cause(ctx)
}

// feed makes batches of the disk's data.
func (p *packer) feed(ctx context.Context, free <-chan *batch, work, order chan<- *batch) error {
	most := max(1, batchBytes>>p.layout.clusterBits)
	return p.layout.ranges(p.disk, func(first, count int64) error {
		for end := first + count; first < end; {
			var b *batch
			select {
			case b = <-free:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			n := min(int64(most), end-first)
			b.first, b.sizes, b.ends, b.packed = first, make([]storedSize, n), b.ends[:0], b.packed[:0]
			first += n
			order <- b // there is always room
			select {
			case work <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
}

// serve is one worker.
func (p *packer) serve(work <-chan *batch) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(true), zstd.WithWindowSize(int(p.layout.clusterSize())), zstd.WithLowerEncoderMem(true))
	if err != nil {
		err = fmt.Errorf("make zstd encoder: %w", err)
	}
	for b := range work {
		if err == nil {
			b.done <- p.pack(e, b)
		} else {
			b.done <- err
		}
	}
}

// pack reads and packs one batch.
func (p *packer) pack(e *zstd.Encoder, b *batch) error {
	size := int(p.layout.clusterSize())
	if want := len(b.sizes) * size; cap(b.plain) < want {
		b.plain = make([]byte, want)
	} else {
		b.plain = b.plain[:want]
	}
	offset := b.first << p.layout.clusterBits
	there := min(int64(len(b.plain)), p.disk.Size()-offset)
	if n, err := p.disk.ReadAt(b.plain[:there], offset); int64(n) < there {
		if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
			err = ErrChanged // it has become shorter
		}
		return err // which says what was read
	}
	clear(b.plain[there:])
	for i := range b.sizes {
		cluster, from := b.plain[i*size:(i+1)*size], len(b.packed)
		if !image.IsZero(cluster) {
			b.packed = e.EncodeAll(cluster, b.packed)
			b.packed = append(b.packed, make([]byte, -(len(b.packed)-from)&(storedUnit-1))...)
			if n := len(b.packed) - from; n < size {
				b.sizes[i] = storedSize(n / storedUnit)
			} else {
				b.sizes[i], b.packed = isPlain, b.packed[:from]
			}
		}
		b.ends = append(b.ends, len(b.packed))
	}
	return nil
}
