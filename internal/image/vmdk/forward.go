package vmdk

import (
	"context"
	"math"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/window"
)

// maxPiece is how many bytes of neighbouring grains are handed over at once.
const maxPiece = 1 << 20

// forward is an image whose header is known.
type forward struct {
	header
	limits image.Limits
}

// Begin reads the header from the first bytes of an image: all of it, or at least image.HeadBytes. It answers an
// *image.Refused for an image that can't be read.
func Begin(head []byte, limits image.Limits) (image.Forward, error) {
	h, err := parseBeginning(head, limits)
	if err != nil {
		return nil, err
	}
	return forward{header: h, limits: limits}, nil
}

// Format implements image.Forward.
func (forward) Format() image.Format { return image.VMDK }

// Size implements image.Forward.
func (f forward) Size() int64 { return f.size }

// Run implements image.Forward. Where the header says where the grain directory is, all grain tables are read first; data
// that lies before them is held, and where that exceeds the limit they are read from in.Random. Then the grains are served
// in the order of the stream, and reading stops behind the last one.
//
// Where the grain directory is at the end, the markers say what each grain is. The stream is read to its end, and refused
// if the tables, once they come, don't say the same as the markers: what is read anywhere must be the same disk. A pass
// that starts behind the beginning goes on by the markers, and can't say that of what lies before its start.
func (f forward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	if f.directory < 0 {
		return newMarked(ctx, f, in, sink).run()
	}
	stride := uint32(f.grain / sector)
	if f.compressed {
		stride = 0 // it takes less room than it covers
	}
	p := &pass{header: f.header, window: window.New(ctx, in, image.VMDK, f.overhead), sink: sink}
	if err := p.readDirectory(); err != nil {
		return err
	}
	p.runs = window.NewRuns(image.VMDK, stride, in.Limits, in.Random != nil)
	p.runs.SkipBefore((in.Start + sector - 1) / sector)
	return p.runs.Each(p.gather, p.serve)
}

// pass is one run over an image whose tables have known places.
type pass struct {
	header
	window *window.Window
	tables []table
	runs   *window.Runs
	sink   image.Sink
}

func (p *pass) readDirectory() error {
	n := int(p.header.tables) * 4
	if n == 0 {
		return nil
	}
	b, err := p.window.Bytes(p.directory, n)
	if err != nil {
		return err
	}
	if len(b) < n {
		return truncated("its grain directory", p.directory, int64(n))
	}
	p.tables, err = sortedTables(b)
	return err
}

// gather reads all grain tables.
func (p *pass) gather() error {
	for _, t := range p.tables {
		b, err := p.window.Bytes(t.offset(), p.tableLen())
		if err != nil {
			return err
		}
		if len(b) < p.tableLen() {
			return truncated("a grain table", t.offset(), int64(p.tableLen()))
		}
		first := int64(t.number) * p.perTable
		for i := range p.entries(int64(t.number)) {
			if at := p.entry(b, i); at != 0 {
				if err := p.runs.Add(at, first+i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// serve hands over a run of grains. next is the sector from which on later runs begin.
func (p *pass) serve(run window.Run, next int64) error {
	offset, guest := int64(run.At)*sector, run.Block*p.grain
	if next == math.MaxInt64 {
		next = int64(run.At) // to have something to start with
		if !p.compressed {
			next += int64(run.Count-1) * p.grain / sector
		}
	}
	next *= sector
	if p.compressed {
		return p.serveCompressed(offset, guest, next)
	}
	end := min(guest+int64(run.Count)*p.grain, p.size)
	for guest < end {
		n := int(min(max(maxPiece, p.grain), end-guest))
		p.window.Forget(offset)
		b, err := p.window.Bytes(offset, n)
		if err != nil {
			return err
		}
		if len(b) < n {
			return truncated("the data", offset, int64(n))
		}
		mark := next
		if guest+int64(n) < end {
			mark = min(next, offset+int64(n))
		}
		if err := p.sink(image.Piece{Offset: guest, Len: n, Full: n, Mark: mark}, b); err != nil {
			return err
		}
		offset, guest = offset+int64(n), guest+int64(n)
	}
	return nil
}

func (p *pass) serveCompressed(offset, guest, mark int64) error {
	p.window.Forget(offset)
	b, err := p.window.Bytes(offset, grainMarker)
	if err != nil {
		return err
	}
	if len(b) < grainMarker {
		return truncated("a compressed grain", offset, grainMarker)
	}
	var head [sector]byte
	copy(head[:], b)
	m := parseMarker(head[:])
	if err := p.checkGrain(m, guest); err != nil {
		return err
	}
	piece, stored, err := p.grainPiece(p.window, offset, guest, m)
	if err != nil {
		return err
	}
	piece.Mark = mark
	return p.sink(piece, stored)
}

// grainPiece reads the compressed grain whose marker is at offset.
func (h header) grainPiece(w *window.Window, offset, guest int64, m marker) (image.Piece, []byte, error) {
	stored, err := w.Bytes(offset+grainMarker, int(m.size))
	if err != nil {
		return image.Piece{}, nil, err
	}
	if len(stored) < int(m.size) {
		return image.Piece{}, nil, truncated("a compressed grain", offset, grainMarker+int64(m.size))
	}
	return h.compressedPiece(guest, stored)
}
