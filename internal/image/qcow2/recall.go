package qcow2

import "math"

// fetchTables reads all L2 tables that lie ahead out of turn, so that nothing needs to be held any more.
func (p *pass) fetchTables() error {
	for p.seen < len(p.tables) {
		b, err := p.readAgain(make([]byte, p.clusterSize()), p.tables[p.seen].offset)
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
	if p.random == nil {
		return needsRandom()
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
	table := make([]byte, p.clusterSize())
	for _, t := range p.tables[:p.seen] {
		b, err := p.readAgain(table, t.offset)
		if err != nil {
			return err
		}
		if int64(len(b)) < p.clusterSize() {
			return truncated("an L2 table", t.offset, p.clusterSize())
		}
		var ahead []unit
		err = p.parseL2(b, t.guest, func(u unit) error {
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
