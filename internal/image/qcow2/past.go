package qcow2

import "vmdisk.io/vmdisk/internal/image"

// emitPast hands over a unit that the stream has passed.
func (p *pass) emitPast(u unit) error {
	if cap(p.scratch) < int(u.stored) {
		p.scratch = make([]byte, max(int(u.stored), p.longest()))
	}
	b, err := p.past(p.scratch[:u.stored], u.offset, u.compressed)
	if err != nil {
		return err
	}
	if from := max(u.offset, p.window.start); !p.mapped() && from < u.end() {
		p.known.add(from, u.end())
	}
	return p.emit(u, b)
}

// past fills b with bytes of the image that the stream has passed: those held, which are given back, those in the window,
// or else read again. If shared, the last sector of them may belong to something else too and stays held. Fewer bytes are
// answered where the image ends.
func (p *pass) past(b []byte, offset int64, shared bool) ([]byte, error) {
	n := int64(len(b))
	got := p.hold.copy(b, offset)
	if offset+int64(got) >= p.window.start {
		got += copy(b[got:], p.window.bytes(offset+int64(got), offset+n))
	}
	atEnd := p.window.ended && offset+int64(got) == p.window.end()
	if got < len(b) && !atEnd {
		got, err := p.in.ReadAgain(b, offset, image.QCOW2)
		return b[:got], err
	}
	end := offset + n
	if shared {
		end -= sector - 1
	}
	if end > offset {
		p.hold.remove(offset, end)
	}
	return b[:got], nil
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
	if p.in.Random == nil {
		return false, image.NeedsRandom(image.QCOW2)
	}
	if !p.tables.known {
		return false, p.fetchL1()
	}
	p.early = true
	return false, p.fetchTables()
}
