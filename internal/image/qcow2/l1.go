package qcow2

import (
	"cmp"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// tables are the L2 tables in the order of the image.
type tables struct {
	known   bool    // the L1 table was read
	places  []int64 // of each table in the image, by its number; 0 for none
	numbers []uint32
	first   bool // they are read before anything else; see readFirst
}

// count is how many L2 tables there are.
func (t *tables) count() int { return len(t.numbers) }

// offset is where the i-th of them lies in the image.
func (t *tables) offset(i int) int64 { return t.places[t.numbers[i]] }

// guestOf is where the part of the disk begins that the i-th table maps.
func (p *pass) guestOf(i int) int64 { return int64(p.tables.numbers[i]) * p.l2Covers() }

// readL1 finds the L2 tables.
func (p *pass) readL1() error {
	n := int64(p.l1Entries) * 8
	if p.in.Random != nil && (p.in.Start > 0 || p.l1Offset+n > int64(len(p.window.buf))) {
		return p.fetchL1()
	}
	raw := make([]byte, n)
	for at := int64(0); at < n; {
		step := min(n-at, int64(p.longest()))
		offset := p.l1Offset + at
		if _, err := p.window.reach(p.ctx, offset, offset+step, p.leave); err != nil {
			return err
		}
		if p.tables.known {
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
	raw := make([]byte, p.l1Entries*8)
	n, err := p.in.ReadAgain(raw, p.l1Offset, image.QCOW2)
	if err != nil {
		return err
	}
	if n < len(raw) {
		return truncated("its L1 table", p.l1Offset, int64(len(raw)))
	}
	return p.setL1(raw)
}

// setL1 takes the L1 table's bytes. L2 tables that the stream has passed are read at once.
func (p *pass) setL1(raw []byte) error {
	places, err := p.parseL1(raw)
	if err != nil {
		return err
	}
	there := 0
	for _, offset := range places {
		if offset != 0 {
			there++
		}
	}
	t := tables{known: true, places: places, numbers: make([]uint32, 0, there)}
	for number, offset := range places {
		if offset != 0 {
			t.numbers = append(t.numbers, uint32(number))
		}
	}
	slices.SortFunc(t.numbers, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(places[a], places[b]), cmp.Compare(a, b))
	})
	t.first = p.in.Random != nil && p.readFirst(&t)
	p.tables = t
	if t.first {
		return p.fetchTables()
	}
	return p.readPassed()
}

// farTables is how far from the beginning of an image its first L2 table can lie before much of the data surely lies
// before the tables, in bytes.
const farTables = 32 << 20

// readFirst reports whether all tables are read out of turn at once, since they would have to be sooner or later: they lie
// behind their data, as in images that have or had internal snapshots. It depends on nothing but the image, so that two
// passes decide alike.
func (h header) readFirst(t *tables) bool {
	return h.snapshots || t.count() > 0 && t.offset(0) > farTables
}

// readPassed reads the tables that the stream has passed.
func (p *pass) readPassed() error {
	table := make([]byte, p.clusterSize())
	for p.nextTable() < p.window.start {
		offset := p.nextTable()
		var b []byte
		var err error
		if offset < p.in.Start {
			b, err = p.tableAgain(p.seen)
		} else {
			b, err = p.past(table, offset, false)
		}
		if err != nil {
			return err
		}
		if err := p.readTable(b); err != nil {
			return err
		}
	}
	return nil
}
