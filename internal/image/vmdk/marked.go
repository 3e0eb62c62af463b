package vmdk

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/window"
)

// maxDirectories is how many copies of the grain directory an image may have.
const maxDirectories = 8

// marked is one run over an image whose grain directory is at its end ("Stream-Optimized Compressed Sparse Extents").
type marked struct {
	forward
	window *window.Window
	sink   image.Sink
	limit  int64 // of what is remembered, in bytes

	start       int64 // of the pass; what lies before was seen by another one
	at          int64 // of the next marker
	expected    map[uint32]*expected
	first       map[uint32]uint32   // of expected: the number by the sector of the first grain
	empty       map[uint32]struct{} // sectors of tables without a grain
	seen        []uint32            // by number, the sector of the table that was found right; 0 for none
	directories []int64             // offsets of those that were found right
}

// expected is a grain table as the markers say that it must be.
type expected struct {
	lowest  int64 // entry
	entries []uint32
}

func newMarked(ctx context.Context, f forward, in image.Input, sink image.Sink) *marked {
	return &marked{
		forward: f, window: window.New(ctx, in, image.VMDK, 0), sink: sink, limit: in.Limits.WithDefaults().MemoryBytes / 2,
		start: in.Start, at: max(f.descriptor, f.overhead, in.Start),
		expected: map[uint32]*expected{}, first: map[uint32]uint32{}, empty: map[uint32]struct{}{},
	}
}

// run follows the markers to the footer.
func (p *marked) run() error {
	for {
		p.window.Forget(p.at)
		b, err := p.sector(p.at)
		if err != nil {
			return err
		}
		m := parseMarker(b)
		switch {
		case m.size != 0:
			err = p.readGrain(m)
		case m.kind == markTable:
			err = p.readTables(m)
		case m.kind == markDirectory:
			err = p.readDirectory(m)
		case m.kind == markFooter:
			return p.readFooter()
		case m == marker{}: // padding, or an end without a footer, behind which the image ends
			p.at += sector
		default:
			err = corrupt("there is a marker of type %d at offset %d", m.kind, p.at)
		}
		if err != nil {
			return err
		}
	}
}

// sector answers the sector at offset.
func (p *marked) sector(offset int64) ([]byte, error) {
	b, err := p.window.Bytes(offset, sector)
	if err == nil && len(b) < sector {
		err = noFooter()
	}
	return b, err
}

// readGrain hands over a grain and remembers where it was.
func (p *marked) readGrain(m marker) error {
	if m.value >= uint64(p.size/sector) || int64(m.value)*sector%p.grain != 0 || p.at/sector > math.MaxUint32 {
		return corrupt("the compressed grain at offset %d says that it belongs to sector %d", p.at, m.value)
	}
	guest := int64(m.value) * sector
	if err := p.checkGrain(m, guest); err != nil {
		return err
	}
	if err := p.expect(uint32(guest/p.covers()), guest%p.covers()/p.grain); err != nil {
		return err
	}
	piece, stored, err := p.grainPiece(p.window, p.at, guest, m)
	if err != nil {
		return err
	}
	p.directories = nil
	p.at += (grainMarker + int64(m.size) + sector - 1) / sector * sector
	piece.Mark = p.at
	return p.sink(piece, stored)
}

// expect remembers that the grain at p.at is an entry of the table with the given number.
func (p *marked) expect(number uint32, entry int64) error {
	if int(number) < len(p.seen) && p.seen[number] != 0 {
		return corrupt("the compressed grain at offset %d comes behind its grain table", p.at)
	}
	e := p.expected[number]
	if e == nil {
		if cost := int64(len(p.expected)+1) * (int64(p.tableLen()) + 128); cost > p.limit {
			return image.Refuse(image.TooLarge, "the vmdk image has more data before its first grain tables than this version can remember: rewrite it with 'qemu-img convert -O qcow2 IN OUT'")
		}
		e = &expected{lowest: entry, entries: make([]uint32, p.perTable)}
		p.expected[number] = e
	}
	if e.entries[entry] != 0 {
		return corrupt("the compressed grain at offset %d was there before, at sector %d", p.at, e.entries[entry])
	}
	e.entries[entry] = uint32(p.at / sector)
	if entry <= e.lowest {
		if before := e.entries[e.lowest]; entry < e.lowest {
			delete(p.first, before)
		}
		e.lowest = entry
		p.first[e.entries[entry]] = number
	}
	return nil
}

// readTables compares the tables behind a marker with what is expected.
func (p *marked) readTables(m marker) error {
	stride := (int64(p.tableLen()) + sector - 1) / sector * sector
	if m.value == 0 || m.value > math.MaxUint32 || int64(m.value)*sector < int64(p.tableLen()) {
		return corrupt("the grain table at offset %d has %d sectors", p.at, m.value)
	}
	end := p.at + sector + int64(m.value)*sector
	for at := p.at + sector; at+int64(p.tableLen()) <= end; at += stride {
		p.window.Forget(at)
		b, err := p.window.Bytes(at, p.tableLen())
		if err != nil {
			return err
		}
		if len(b) < p.tableLen() {
			return truncated("a grain table", at, int64(p.tableLen()))
		}
		if err := p.recognize(b, at/sector); err != nil {
			return err
		}
	}
	p.at = end
	return nil
}

// recognize finds out which part of the disk a table maps, by its first grain behind the start of the pass. A table that
// isn't as the markers say is not an error before the directory names it.
func (p *marked) recognize(b []byte, at int64) error {
	if at > math.MaxUint32 {
		return nil
	}
	for i := range p.perTable {
		e := p.entry(b, i)
		if e == 0 || p.isBefore(e) {
			continue
		}
		number, ok := p.first[e]
		if !ok {
			return nil
		}
		want := p.expected[number]
		for i := range p.entries(int64(number)) {
			if e := p.entry(b, i); e != want.entries[i] && (want.entries[i] != 0 || !p.isBefore(e)) {
				return nil
			}
		}
		if missing := int(number) + 1 - len(p.seen); missing > 0 {
			p.seen = append(p.seen, make([]uint32, missing)...)
		}
		p.seen[number] = uint32(at)
		delete(p.expected, number)
		delete(p.first, e)
		return nil
	}
	if int64(len(p.empty)+1)*64 > p.limit {
		return corrupt("it has %d grain tables without a grain", len(p.empty))
	}
	p.empty[uint32(at)] = struct{}{}
	return nil
}

// isBefore reports whether a sector of the image lies before the start of the pass.
func (p *marked) isBefore(at uint32) bool { return int64(at)*sector < p.start }

// readDirectory compares a grain directory with the tables that were seen.
func (p *marked) readDirectory(m marker) error {
	from := p.at + sector
	if m.value > math.MaxUint32 || int64(m.value)*sector < p.tables*4 {
		return corrupt("the grain directory at offset %d has %d sectors, and needs %d bytes", p.at, m.value, p.tables*4)
	}
	const step = 16 << 10 // entries
	right := len(p.expected) == 0
	for number := int64(0); number < p.tables; number += step {
		at, n := from+number*4, int(min(step, p.tables-number))*4
		p.window.Forget(at)
		b, err := p.window.Bytes(at, n)
		if err != nil {
			return err
		}
		if len(b) < n {
			return truncated("its grain directory", from, p.tables*4)
		}
		for i := range int64(n / 4) {
			right = right && p.isRight(number+i, binary.LittleEndian.Uint32(b[i*4:]))
		}
	}
	if right && len(p.directories) < maxDirectories {
		p.directories = append(p.directories, from)
	}
	p.at = from + int64(m.value)*sector
	return nil
}

// isRight reports whether a directory's entry names the table that was seen.
func (p *marked) isRight(number int64, at uint32) bool {
	if number < int64(len(p.seen)) && p.seen[number] != 0 {
		return at == p.seen[number]
	}
	_, empty := p.empty[at]
	return at == 0 || empty || p.isBefore(at)
}

// readFooter looks at the footer, behind which the image must end.
func (p *marked) readFooter() error {
	b, err := p.window.Bytes(p.at, footerLen)
	if err != nil {
		return err
	}
	if len(b) < footerLen {
		return noFooter()
	}
	if err := checkEnd(b[2*sector:]); err != nil {
		return err
	}
	footer, err := p.parseFooter(b[sector:2*sector], p.limits)
	if err != nil {
		return err
	}
	if p.tables > 0 && !slices.Contains(p.directories, footer.directory) {
		return corrupt("its grain tables don't say the same as the markers of its grains")
	}
	ended, err := p.window.Ended(p.at + footerLen)
	if err == nil && !ended {
		err = noFooter()
	}
	return err
}
