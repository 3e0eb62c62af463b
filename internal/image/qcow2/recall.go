package qcow2

import (
	"math"

	"vmdisk.io/vmdisk/internal/image"
)

const (
	// maxGap is how many bytes between two tables are read and given up rather than asking a second time.
	maxGap = 64 << 10
	// maxReread is how many bytes of tables are read at once, unless one is longer.
	maxReread = 1 << 20
)

// reread is tables that were read out of turn last.
type reread struct {
	offset int64
	b      []byte // as far as the image goes
}

// tableAgain answers the bytes of the i-th table out of turn, and fewer where the image ends. They are valid until the
// next call.
func (p *pass) tableAgain(i int) ([]byte, error) {
	offset, size := p.tables.offset(i), p.clusterSize()
	if b := p.window.bytes(offset, offset+size); offset >= p.window.start && int64(len(b)) == size {
		return b, nil
	}
	if at := offset - p.reread.offset; at >= 0 && at+size <= int64(len(p.reread.b)) {
		return p.reread.b[at : at+size], nil
	}
	end := offset + size
	for i++; i < p.tables.count(); i++ {
		next := p.tables.offset(i)
		if next-end > maxGap || next+size-offset > maxReread {
			break
		}
		end = next + size
	}
	b := p.reread.b
	if int64(cap(b)) < end-offset {
		b = make([]byte, max(end-offset, maxReread))
	}
	n, err := p.in.ReadAgain(b[:end-offset], offset, image.QCOW2)
	if err != nil {
		return nil, err
	}
	p.reread = reread{offset, b[:n]}
	return b[:min(int64(n), size)], nil
}

// fetchTables reads all L2 tables that lie ahead out of turn, so that nothing needs to be held any more.
func (p *pass) fetchTables() error {
	for p.seen < p.tables.count() {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		b, err := p.tableAgain(p.seen)
		if err != nil {
			return err
		}
		if err := p.readTable(b); err != nil {
			return err
		}
	}
	return nil
}

// relievePending makes room when too many units lie ahead: those farthest away are forgotten, and found again in their
// tables when the stream has come near them.
func (p *pass) relievePending() error {
	if p.ahead.cost() <= p.limit {
		return nil
	}
	if p.in.Random == nil {
		return image.NeedsRandom(image.QCOW2)
	}
	if !p.ahead.shed() {
		return corrupt("more than %d parts of its disk are stored in the same place", p.ahead.count)
	}
	return nil
}

// hasForgotten reports whether units were forgotten.
func (p *pass) hasForgotten() bool { return p.ahead.cut != math.MaxInt64 }

// recall finds forgotten units again, in the tables that were read before. It is called when the stream has come to the
// first of them, so everything before the cut has been served and everything behind it has not.
func (p *pass) recall() error {
	from := p.ahead.cut
	p.ahead.cut = math.MaxInt64
	for i := range p.seen {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		b, err := p.tableAgain(i)
		if err != nil {
			return err
		}
		if int64(len(b)) < p.clusterSize() {
			return truncated("an L2 table", p.tables.offset(i), p.clusterSize())
		}
		var ahead []unit
		err = p.parseL2(b, p.guestOf(i), func(u unit) error {
			if u.offset >= from {
				ahead = append(ahead, u)
			}
			if len(ahead) < batchUnits {
				return nil
			}
			p.ahead.add(ahead)
			ahead = nil
			return p.relievePending()
		})
		if err != nil {
			return err
		}
		p.ahead.add(ahead)
		if err := p.relievePending(); err != nil {
			return err
		}
	}
	return nil
}
