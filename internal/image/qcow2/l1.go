package qcow2

import (
	"encoding/binary"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// tables are the L2 tables that there are, in the order of the image.
type tables struct {
	known bool // the L1 table was read
	list  []l2Place
	bits  uint // of a cluster
	first bool // they are read before anything else; see readFirst
}

// l2Place is where an L2 table lies, in clusters, above its number: an L1 table can have millions of them.
type l2Place uint64

const (
	// numberBits is how many bits of an l2Place are the number.
	numberBits = 24
	// farthest is where no L2 table lies, in clusters.
	farthest = 1 << (64 - numberBits)
	// l1Step is how many bytes of an L1 table are read at a time.
	l1Step = 256 << 10
)

// count is how many L2 tables there are.
func (t *tables) count() int { return len(t.list) }

// offset is where the i-th of them lies in the image.
func (t *tables) offset(i int) int64 { return int64(t.list[i]>>numberBits) << t.bits }

// number is which part of the disk the i-th of them maps.
func (t *tables) number(i int) int64 { return t.list[i].number() }

func (p l2Place) number() int64 { return int64(p & (1<<numberBits - 1)) }

// guestOf is where the part of the disk begins that the i-th table maps.
func (p *pass) guestOf(i int) int64 { return p.tables.number(i) * p.l2Covers() }

// readL1 finds the L2 tables.
func (p *pass) readL1() error {
	n := int64(p.l1Entries) * 8
	if p.in.Random != nil && (p.in.Start > 0 || p.l1Offset+n > int64(len(p.window.buf))) {
		return p.fetchL1()
	}
	t := p.newTables()
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
		raw := p.window.bytes(offset, offset+step)
		if int64(len(raw)) < step {
			return truncated("its L1 table", p.l1Offset, n)
		}
		if err := p.addTables(&t, raw, at/8); err != nil {
			return err
		}
		at += step
	}
	return p.setTables(t)
}

// fetchL1 reads the L1 table out of turn.
func (p *pass) fetchL1() error {
	t := p.newTables()
	n := p.l1Entries * 8
	raw := make([]byte, min(n, l1Step))
	for at := 0; at < n; at += len(raw) {
		raw = raw[:min(len(raw), n-at)]
		got, err := p.in.ReadAgain(raw, p.l1Offset+int64(at), image.QCOW2)
		if err != nil {
			return err
		}
		if got < len(raw) {
			return truncated("its L1 table", p.l1Offset, int64(n))
		}
		if err := p.addTables(&t, raw, int64(at/8)); err != nil {
			return err
		}
	}
	return p.setTables(t)
}

func (h header) newTables() tables {
	return tables{known: true, bits: h.clusterBits, list: make([]l2Place, 0, h.l1Entries)}
}

// addTables takes a part of the L1 table, which begins with the given entry.
func (h header) addTables(t *tables, raw []byte, number int64) error {
	for ; len(raw) > 0; raw = raw[8:] {
		offset, err := h.l2Offset(binary.BigEndian.Uint64(raw))
		if err != nil {
			return err
		}
		if offset != 0 {
			t.list = append(t.list, l2Place(offset>>h.clusterBits)<<numberBits|l2Place(number))
		}
		number++
	}
	return nil
}

// setTables takes the L2 tables that there are. Those that the stream has passed are read at once.
func (p *pass) setTables(t tables) error {
	slices.Sort(t.list)
	if err := t.refuseShared(); err != nil {
		return err
	}
	t.first = p.in.Random != nil && p.readFirst(&t)
	p.tables = t
	if t.first {
		return p.fetchTables()
	}
	return p.readPassed()
}

// refuseShared refuses an L1 table with the same L2 table in two places. No program writes that, and a small image could have
// any number of look-ups made by it.
func (t *tables) refuseShared() error {
	for i := 1; i < t.count(); i++ {
		if t.offset(i) == t.offset(i-1) {
			return corrupt("the L2 table at offset %d stands for two parts of its disk", t.offset(i))
		}
	}
	return nil
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
