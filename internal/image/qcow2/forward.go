package qcow2

import (
	"context"
	"math"

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
// Where holding exceeds the limit, the tables ahead are read from in.Random; without that the image is refused. A pass
// that starts behind the beginning reads the tables before its start from there too.
func (f forward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	p := &pass{
		header: f.header, ctx: ctx, in: in, sink: sink, limit: in.Limits.WithDefaults().MemoryBytes / 2,
		window: newWindow(in.Stream, in.Start, f.longest(), f.room), at: in.Start - 1, ahead: newPending(), mark: in.Start,
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
	ctx   context.Context // of the Run that the pass is
	in    image.Input
	sink  image.Sink
	limit int64 // of what is held, and of what is pending, in bytes

	window  *window
	at      int64 // where what was served last began; what lies ahead begins behind it
	tables  tables
	seen    int // of tables were read
	reread  reread
	ahead   pending
	known   spans // what in the window was wanted
	hold    hold
	scratch []byte // the unit that was read again last

	mark  int64 // of the piece that was handed over last
	early bool  // tables were read out of turn for want of memory
}

// mapped reports whether every table is known.
func (p *pass) mapped() bool { return p.tables.known && p.seen == p.tables.count() }

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
		if at := p.nextTable(); at < math.MaxInt64 && (!ok || at <= u.offset) && at <= p.ahead.cut {
			return unit{offset: at, stored: int32(p.clusterSize())}, true, true, nil
		}
		if ok || !p.hasForgotten() {
			return u, false, ok, nil
		}
		if err := p.recall(); err != nil {
			return unit{}, false, false, err
		}
	}
}

// nextTable is where the first table lies that was not read, or math.MaxInt64.
func (p *pass) nextTable() int64 {
	if p.seen == p.tables.count() {
		return math.MaxInt64
	}
	return p.tables.offset(p.seen)
}

// emit hands a unit and its bytes to the sink.
func (p *pass) emit(u unit, b []byte) error {
	if len(b) < int(u.stored) && !u.compressed || len(b) == 0 {
		return truncated("the data", u.offset, int64(u.stored))
	}
	piece := p.piece(u)
	piece.Mark = p.nextMark(u)
	return p.sink(piece, b)
}

// nextMark is the mark of the piece that u becomes.
//
// A pass that starts at a mark hands over what the stream has from there on, and whatever is mapped by tables from there
// on, wherever it lies; see readTable. So neither a table that is still to be read nor a unit that is still to be served
// may lie before a mark.
//
// Once tables were read out of turn, most of what they map may be handed over before they come. As the next pass can't
// know that, the mark stays where it was until all of them are past.
func (p *pass) nextMark(u unit) int64 {
	if p.in.Random == nil {
		return 0 // no pass can start behind the beginning then
	}
	next := p.nextTable()
	if first, ok := p.ahead.first(); ok {
		next = min(next, first.offset)
	}
	if next = min(next, p.ahead.cut); next == math.MaxInt64 {
		next = u.offset // nothing lies ahead; there must be something to start with
	}
	switch {
	case p.tables.first && !p.mapped():
	case p.early && next <= p.tables.offset(p.tables.count()-1):
	default:
		p.mark = max(p.mark, next)
	}
	return p.mark
}

// readTable takes the next table's bytes and sorts what it maps into what lies ahead and what is past.
func (p *pass) readTable(b []byte) error {
	offset := p.tables.offset(p.seen)
	if int64(len(b)) < p.clusterSize() {
		return truncated("an L2 table", offset, p.clusterSize())
	}
	served := int64(0) // up to where another pass has served what the table maps
	if offset < p.in.Start || p.tables.first {
		served = p.in.Start
	}
	var ahead []unit
	add := func() error {
		p.ahead.add(ahead)
		ahead = nil
		return p.relievePending()
	}
	err := p.parseL2(b, p.guestOf(p.seen), func(u unit) error {
		switch {
		case u.offset < served:
			return nil
		case u.offset <= p.at || u.offset < p.window.start:
			return p.emitPast(u)
		}
		ahead = append(ahead, u)
		if len(ahead) == batchUnits {
			return add()
		}
		return nil
	})
	if err == nil {
		err = add()
	}
	if err != nil {
		return err
	}
	p.seen++
	if p.mapped() {
		p.hold, p.known = hold{}, nil
	}
	return nil
}

// batchUnits is how many units of one table are sorted at a time.
const batchUnits = 16 << 10
