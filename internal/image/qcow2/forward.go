package qcow2

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// forward is an image whose header is known.
type forward struct {
	header
	room room
}

// Begin reads the header from the first bytes of an image: all of it, or at least image.HeadBytes. It answers an
// *image.Refused for an image that can't be read.
func Begin(head []byte, limits image.Limits) (image.Forward, error) {
	h, err := parseHeader(head, limits)
	if err != nil {
		return nil, err
	}
	return forward{header: h, room: defaultRoom()}, nil
}

// Format implements image.Forward.
func (forward) Format() image.Format { return image.QCOW2 }

// Size implements image.Forward.
func (f forward) Size() int64 { return f.size }

// Run implements image.Forward. It stops reading when nothing that it wants lies ahead.
//
// A stream passes by once, so each of its bytes falls into one of these when it comes:
//
//	a table whose place is known (the L1 table from the header, L2 tables from the L1 table): it is read, and what it
//	maps is wanted from then on
//	a wanted unit: it is handed to sink
//	anything else, while tables lie ahead: it is held, since a later table may map it
//	anything else, once all tables are known: nobody will ask for it
//
// Where holding exceeds the limit, the tables ahead are read from in.Random; without that the image is refused.
func (f forward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	p := &pass{
		header: f.header, ctx: ctx, random: in.Random, sink: sink, limit: in.Limits.WithDefaults().MemoryBytes / 2,
		window: newWindow(in.Stream, f.longest(), f.room), ahead: newPending(),
	}
	if f.l1Entries == 0 {
		return nil
	}
	if err := p.readL1(); err != nil {
		return err
	}
	return p.loop()
}

// longest is the length of the longest run that is wanted at once.
func (h header) longest() int {
	return int(max(min(maxMerged, h.l2Covers()), 2*h.clusterSize())) // a compressed cluster may take two clusters by its descriptor
}

// pass is one run of a forward decoder.
type pass struct {
	header
	ctx    context.Context // of the Run that the pass is
	random io.ReaderAt
	sink   image.Sink
	limit  int64 // of what is held, and of what is pending, in bytes

	window *window
	at     int64   // where what was served last began; what lies ahead begins behind it
	tables []table // by offset, once the L1 table is known
	seen   int     // of tables were read
	ahead  pending
	known  spans // what in the window was wanted
	hold   hold
}

// table is an L2 table.
type table struct {
	offset int64 // in the image
	guest  int64 // where the disk's part that it maps begins
}

// mapped reports whether every table is known.
func (p *pass) mapped() bool { return p.tables != nil && p.seen == len(p.tables) }

// loop serves what is wanted in the order of the stream.
func (p *pass) loop() error {
	for {
		u, isTable, ok, err := p.next()
		if err != nil || !ok {
			return err
		}
		there, err := p.window.reach(p.ctx, u.offset, u.end(), p.leave)
		if err != nil {
			return err
		}
		if !there {
			continue // other things may be wanted first now
		}
		p.at = u.offset
		b := p.window.bytes(u.offset, u.end())
		if !p.mapped() {
			p.known.add(u.offset, u.end())
		}
		if isTable {
			err = p.readTable(b)
		} else {
			p.ahead.pop()
			err = p.emit(u, b)
		}
		if err != nil {
			return err
		}
	}
}

// next answers what is wanted next: a unit, or an L2 table as if it were one.
func (p *pass) next() (u unit, isTable, ok bool, err error) {
	for {
		u, ok = p.ahead.first()
		if p.seen < len(p.tables) && (!ok || p.tables[p.seen].offset <= u.offset) && p.tables[p.seen].offset <= p.ahead.cut {
			return unit{offset: p.tables[p.seen].offset, stored: int32(p.clusterSize())}, true, true, nil
		}
		if ok || !p.hasForgotten() {
			return u, false, ok, nil
		}
		if err := p.recall(); err != nil {
			return unit{}, false, false, err
		}
	}
}

// emit hands a unit and its bytes to the sink.
func (p *pass) emit(u unit, b []byte) error {
	if len(b) < int(u.stored) && !u.compressed || len(b) == 0 {
		return truncated("the data", u.offset, int64(u.stored))
	}
	return p.sink(p.piece(u), b)
}

// readTable takes the next table's bytes and sorts what it maps into what lies ahead and what is past.
func (p *pass) readTable(b []byte) error {
	t := p.tables[p.seen]
	if int64(len(b)) < p.clusterSize() {
		return truncated("an L2 table", t.offset, p.clusterSize())
	}
	p.seen++
	var ahead []unit
	add := func() error {
		p.ahead.add(ahead)
		ahead = nil
		return p.relievePending()
	}
	err := p.parseL2(b, t.guest, func(u unit) error {
		if u.offset <= p.at || u.offset < p.window.start {
			return p.emitPast(u)
		}
		ahead = append(ahead, u)
		if len(ahead) == batchUnits {
			return add()
		}
		return nil
	})
	if err != nil {
		return err
	}
	if p.mapped() {
		p.hold, p.known = hold{}, nil
	}
	return add()
}

// batchUnits is how many units of one table are sorted at a time.
const batchUnits = 16 << 10

// emitPast hands over a unit that the stream has passed.
func (p *pass) emitPast(u unit) error {
	b, err := p.past(u.offset, int(u.stored), u.compressed)
	if err != nil {
		return err
	}
	if from := max(u.offset, p.window.start); !p.mapped() && from < u.end() {
		p.known.add(from, u.end())
	}
	return p.emit(u, b)
}

// past answers n bytes of the image that the stream has passed: those held, which are given back, those in the window,
// or else read again. If shared, the last sector of them may belong to something else too and stays held.
func (p *pass) past(offset int64, n int, shared bool) ([]byte, error) {
	b := make([]byte, n)
	got := p.hold.copy(b, offset)
	if offset+int64(got) >= p.window.start {
		got += copy(b[got:], p.window.bytes(offset+int64(got), offset+int64(n)))
	}
	atEnd := p.window.ended && offset+int64(got) == p.window.end()
	if got < n && !atEnd {
		return p.readAgain(b, offset)
	}
	end := offset + int64(n)
	if shared {
		end -= sector - 1
	}
	if end > offset {
		p.hold.remove(offset, end)
	}
	return b[:got], nil
}

// readAgain reads a part of the image a second time. Fewer bytes are answered where the image ends.
func (p *pass) readAgain(b []byte, offset int64) ([]byte, error) {
	if p.random == nil {
		return nil, needsRandom()
	}
	n, err := p.random.ReadAt(b, offset)
	if err != nil && err != io.EOF { // a wrapped one is a failure
		return nil, fmt.Errorf("read %d bytes at offset %d of the qcow2 image again: %w", len(b), offset, err)
	}
	return b[:n], nil
}

// needsRandom is the refusal of a layout that one pass can't decode.
func needsRandom() error {
	return image.Refuse(image.NeedsRandomAccess, "the qcow2 image has its tables behind the data that they describe, and its source can't be read at any place: serve it from a server that answers range requests, or rewrite it with 'qemu-img convert -O qcow2 IN OUT'")
}

// leave is told which bytes leave the window. It answers false when something was read from elsewhere, so that what is
// wanted next may have changed.
func (p *pass) leave(start int64, b []byte) (bool, error) {
	if p.mapped() {
		return true, nil
	}
	p.known.gaps(start, start+int64(len(b)), func(offset, end int64) {
		p.hold.add(offset, b[offset-start:end-start])
	})
	p.known.forget(p.window.start)
	if p.hold.cost <= p.limit {
		return true, nil
	}
	if p.random == nil {
		return false, needsRandom()
	}
	if p.tables == nil {
		return false, p.fetchL1()
	}
	return false, p.fetchTables()
}

// readL1 finds the L2 tables.
func (p *pass) readL1() error {
	n := int64(p.l1Entries) * 8
	if p.random != nil && p.l1Offset+n > int64(len(p.window.buf)) {
		return p.fetchL1()
	}
	raw := make([]byte, n)
	for at := int64(0); at < n; {
		step := min(n-at, maxMerged)
		offset := p.l1Offset + at
		if _, err := p.window.reach(p.ctx, offset, offset+step, p.leave); err != nil {
			return err
		}
		if p.tables != nil {
			return nil // the hold was full and the table was fetched
		}
		p.known.add(offset, offset+step)
		if got := copy(raw[at:], p.window.bytes(offset, offset+step)); int64(got) < step {
			return truncated("its L1 table", p.l1Offset, n)
		}
		at += step
	}
	return p.setL1(raw)
}

// fetchL1 reads the L1 table out of turn.
func (p *pass) fetchL1() error {
	raw, err := p.readAgain(make([]byte, p.l1Entries*8), p.l1Offset)
	if err != nil {
		return err
	}
	if len(raw) < p.l1Entries*8 {
		return truncated("its L1 table", p.l1Offset, int64(p.l1Entries)*8)
	}
	return p.setL1(raw)
}

// setL1 takes the L1 table's bytes. L2 tables that the stream has passed are read at once.
func (p *pass) setL1(raw []byte) error {
	p.tables = make([]table, 0)
	for i := range p.l1Entries {
		offset, err := p.l2Offset(binary.BigEndian.Uint64(raw[i*8:]))
		if err != nil {
			return err
		}
		if offset != 0 {
			p.tables = append(p.tables, table{offset, int64(i) * p.l2Covers()})
		}
	}
	slices.SortFunc(p.tables, func(a, b table) int {
		if a.offset != b.offset {
			return cmp.Compare(a.offset, b.offset)
		}
		return cmp.Compare(a.guest, b.guest)
	})
	for p.seen < len(p.tables) && p.tables[p.seen].offset < p.window.start {
		b, err := p.past(p.tables[p.seen].offset, int(p.clusterSize()), false)
		if err != nil {
			return err
		}
		if err := p.readTable(b); err != nil {
			return err
		}
	}
	return nil
}
