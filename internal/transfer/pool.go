package transfer

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/codec"
	"vmdisk.io/vmdisk/internal/target"
)

const (
	// batchBytes is how many stored or decoded bytes are handed to a worker at a time, unless one piece is larger.
	batchBytes = 1 << 20
	// mostZeros is how many of the image's bytes may be zeros behind what a batch holds, before it is handed over as it is. Until then
	// it holds up the watermark, and with it the checkpoints.
	mostZeros = 8 << 20
	// spareBatches is how many batches there are besides those that the workers hold.
	spareBatches = 3
)

// Panic is an error made of a panic in one of the pool's goroutines: a fault of vmdisk.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// batch is pieces with copies of their stored bytes.
type batch struct {
	stored  []byte
	pieces  []batched
	decoded int   // bytes
	mark    int64 // of its last piece
	dataAt  int64 // the mark of the last one that is stored here
	waiting *waiting
}

// batched is a piece and where its stored bytes are.
type batched struct {
	image.Piece
	from, to int
}

// pool decodes pieces and writes them to a target, several at a time. Its memory is bounded by the number of its batches.
type pool struct {
	ctx     context.Context // done when the caller's is, or a worker has ended with an error
	group   *errgroup.Group
	target  target.Target
	work    chan *batch
	free    chan *batch
	current *batch
	written atomic.Int64 // bytes
	marks   *watermark
	hash    *diskHash // nil: nobody wants it
}

func newPool(ctx context.Context, t target.Target, h *diskHash, workers int, start int64) *pool {
	group, ctx := errgroup.WithContext(ctx)
	p := &pool{ctx: ctx, group: group, target: t, marks: newWatermark(start), hash: h, work: make(chan *batch, spareBatches), free: make(chan *batch, workers+spareBatches)}
	for range workers + spareBatches {
		p.free <- &batch{}
	}
	for range workers {
		p.start(p.serve)
	}
	return p
}

// start runs f beside the others. A panic in it is an error.
func (p *pool) start(f func() error) {
	p.group.Go(func() (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = &Panic{Value: v, Stack: debug.Stack()}
			}
		}()
		return f()
	})
}

// put takes over a piece; it copies its stored bytes. It waits while all batches are busy.
func (p *pool) put(piece image.Piece, stored []byte) error {
	if piece.Encoding == image.Plain && image.IsZero(stored[:piece.Len]) { // not worth a copy
		if p.current == nil {
			p.marks.pass(piece.Mark)
			return nil
		}
		p.current.mark = piece.Mark
		if piece.Mark-p.current.dataAt > mostZeros {
			return p.flush()
		}
		return nil
	}
	if b := p.current; b != nil && (len(b.stored)+len(stored) > batchBytes || b.decoded+piece.Full > batchBytes) {
		if err := p.flush(); err != nil {
			return err
		}
	}
	if p.current == nil {
		select {
		case p.current = <-p.free:
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	b := p.current
	if b.stored == nil {
		b.stored = make([]byte, 0, max(batchBytes, len(stored)))
	}
	from := len(b.stored)
	b.stored = append(b.stored, stored...)
	b.pieces = append(b.pieces, batched{piece, from, len(b.stored)})
	b.decoded += piece.Full
	b.mark, b.dataAt = piece.Mark, piece.Mark
	return nil
}

// flush hands the current batch to a worker.
func (p *pool) flush() error {
	if p.current == nil {
		return nil
	}
	p.current.waiting = p.marks.add(p.current.mark)
	select {
	case p.work <- p.current:
		p.current = nil
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	}
}

// wait hands over what is left, and answers the first error of the workers when all of them have ended. It is called
// once, also where put has answered an error.
func (p *pool) wait() error {
	flushErr := p.flush()
	close(p.work)
	if err := p.group.Wait(); err != nil {
		return err
	}
	return flushErr
}

// serve is one worker.
func (p *pool) serve() error {
	w := &writer{target: p.target, hash: p.hash, written: &p.written}
	for b := range p.work {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := w.write(b); err != nil {
			return err
		}
		p.marks.finish(b.waiting)
		b.stored, b.pieces, b.decoded = b.stored[:0], b.pieces[:0], 0
		p.free <- b // there is always room: it holds all batches
	}
	return nil
}

// writer decodes and writes batches one after the other.
type writer struct {
	target  target.Target
	hash    *diskHash
	written *atomic.Int64
	decoder codec.Decoder
	out     []byte // decoded, not written yet
	offset  int64  // of out on the disk
}

func (w *writer) write(b *batch) error {
	for _, piece := range b.pieces {
		stored := b.stored[piece.from:piece.to]
		if piece.Encoding == image.Plain {
			if err := w.writeSparse(stored[:piece.Len], piece.Offset); err != nil {
				return err
			}
			continue
		}
		if err := w.decode(piece.Piece, stored); err != nil {
			return err
		}
	}
	return w.flush()
}

// decode puts a piece behind those that were decoded before, if it belongs there.
func (w *writer) decode(piece image.Piece, stored []byte) error {
	if w.offset+int64(len(w.out)) != piece.Offset || len(w.out)+piece.Full > cap(w.out) {
		if err := w.flush(); err != nil {
			return err
		}
		w.offset = piece.Offset
	}
	if cap(w.out) < piece.Full {
		w.out = make([]byte, 0, max(piece.Full, batchBytes))
	}
	at := len(w.out)
	if err := w.decoder.Decode(w.out[at:at+piece.Full], piece.Encoding, stored); err != nil {
		return image.Refuse(image.CorruptImage, "the image is corrupt: the compressed data at %d of the disk can't be decoded: %v", piece.Offset, err)
	}
	w.out = w.out[:at+piece.Len]
	return nil
}

// flush writes what was decoded.
func (w *writer) flush() error {
	err := w.writeSparse(w.out, w.offset)
	w.out = w.out[:0]
	return err
}

// writeSparse writes what isn't zero of p.
func (w *writer) writeSparse(p []byte, offset int64) error {
	return dataRuns(p, offset, func(from, to int) error {
		n, err := w.target.WriteAt(p[from:to], offset+int64(from))
		w.written.Add(int64(n))
		w.hash.wrote(offset+int64(from), n)
		return err
	})
}
