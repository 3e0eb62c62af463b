package vhdx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"vmdisk.io/vmdisk/internal/image"
)

// forward is an image of which at least the begin is known.
type forward struct {
	limits image.Limits
	size   int64 // of the disk in bytes, or image.Unknown until Run has read the metadata
}

// MaxHeadBytes is how many bytes from an image's beginning Begin wants at most.
const MaxHeadBytes = 8 << 20

// Begin reads the header section and the metadata from the first bytes of an image, which may have image.Unknown bytes.
// It answers an *image.Refused for an image that can't be read. Where they lie behind head, which should have the bytes
// that Wants asks for, they are read by Run, and the disk's size is image.Unknown until then.
func Begin(head []byte, length int64, limits image.Limits) (image.Forward, error) {
	f := &forward{limits: limits, size: image.Unknown}
	h, err := readHeader(begin{head, length}, limits)
	var behind *behindError
	if errors.As(err, &behind) {
		return f, nil
	}
	f.size = h.size
	return f, err
}

// Wants answers how many bytes from the beginning of the image that begins with head Begin wants: more than head has, or
// 0 where head is enough, or more would be unreasonable.
func Wants(head []byte) int {
	_, err := readHeader(begin{head, image.Unknown}, image.Limits{})
	var behind *behindError
	if !errors.As(err, &behind) || behind.end > MaxHeadBytes {
		return 0
	}
	return int(behind.end)
}

// behindError says that something lies behind the bytes at hand.
type behindError struct{ end int64 }

// Error implements error.
func (b *behindError) Error() string { return fmt.Sprintf("%d bytes are needed", b.end) }

// begin is the reader of an image of which only the beginning is at hand.
type begin struct {
	head   []byte
	length int64 // the image's, in bytes, or image.Unknown
}

// read implements reader. It answers a *behindError for what it can't judge.
func (b begin) read(p []byte, offset int64, what string) error {
	end := offset + int64(len(p))
	switch have := int64(len(b.head)); {
	case end <= have:
		copy(p, b.head[offset:])
		return nil
	case have < image.HeadBytes || b.length >= 0 && end > b.length:
		return truncated(what, offset, int64(len(p)))
	default:
		return &behindError{end}
	}
}

// done implements reader.
func (begin) done(int64, int64) {}

// Format implements image.Forward.
func (*forward) Format() image.Format { return image.VHDX }

// Size implements image.Forward.
func (f *forward) Size() int64 { return f.size }

// Run implements image.Forward. It stops reading behind the last block that is present.
//
// Everything in the image lies at a multiple of a MiB, so the stream is taken in units of that. Units that pass before
// the block allocation table is known are held. Where that exceeds the limit, or where the stream starts behind the
// tables, they are read from in.Random; without that the image is refused.
func (f *forward) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	p := &pass{ctx: ctx, in: in, limit: in.Limits.WithDefaults().MemoryBytes / 2, next: in.Start, held: map[int64][]byte{}}
	var err error
	if p.header, err = readHeader(p, f.limits); err != nil {
		return err
	}
	f.size = p.size
	if p.present, err = p.readTable(p); err != nil {
		return err
	}
	p.present = slices.DeleteFunc(p.present, func(b block) bool { return b.offset()+p.stored(b) <= in.Start })
	return p.emitAll(sink)
}

// pass is one run of a forward decoder.
type pass struct {
	header
	ctx   context.Context // of the Run that the pass is
	in    image.Input
	limit int64 // of what is held, in bytes

	next     int64            // where in the image the next unit of the stream begins
	ended    bool             // the stream has
	held     map[int64][]byte // units by their offset
	unwanted []area           // where nothing needs to be held
	present  []block          // those that weren't handed over yet
}

// read implements reader.
func (p *pass) read(b []byte, offset int64, what string) error {
	end := offset + int64(len(b))
	for p.next < end && !p.ended {
		at := p.next
		wanted := !slices.ContainsFunc(p.unwanted, func(a area) bool { return a.offset <= at && at < a.end() })
		if wanted && int64(len(p.held)+1)*mib > p.limit && len(p.held) > 0 {
			return p.readAgain(b, offset, what)
		}
		unit, err := p.take(make([]byte, mib))
		if err != nil {
			return err
		}
		if wanted && len(unit) > 0 {
			p.held[at] = unit
		}
	}
	for at := offset; at < end; {
		unit, ok := p.held[at-at%mib]
		if !ok && at < p.next { // given up before, because nobody was expected to want it
			return p.readAgain(b, offset, what)
		}
		if at%mib >= int64(len(unit)) {
			return truncated(what, offset, int64(len(b)))
		}
		at += int64(copy(b[at-offset:], unit[at%mib:]))
	}
	return nil
}

// take reads the next unit of the stream into b, which is a MiB long. Fewer bytes are answered where the stream ends.
func (p *pass) take(b []byte) ([]byte, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	n, err := io.ReadFull(p.in.Stream, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // a wrapped one is a failure
		p.ended = true
	} else if err != nil {
		return nil, fmt.Errorf("read the vhdx image at offset %d: %w", p.next+int64(n), err)
	}
	p.next += mib
	return b[:n], nil
}

// readAgain reads a part of the image out of turn.
func (p *pass) readAgain(b []byte, offset int64, what string) error {
	n, err := p.in.ReadAgain(b, offset, image.VHDX)
	if err == nil && n < len(b) {
		err = truncated(what, offset, int64(len(b)))
	}
	return err
}

// done implements reader.
func (p *pass) done(offset, end int64) {
	p.unwanted = append(p.unwanted, area{offset, end - offset})
	for ; offset < min(end, p.next); offset += mib {
		delete(p.held, offset)
	}
}

// emitAll hands over the blocks that are present: first what is held, then what the stream still brings.
func (p *pass) emitAll(sink image.Sink) error {
	offsets := make([]int64, 0, len(p.held))
	for at := range p.held {
		offsets = append(offsets, at)
	}
	slices.Sort(offsets)
	for _, at := range offsets {
		if err := p.emit(at, p.held[at], sink); err != nil {
			return err
		}
		delete(p.held, at)
	}
	buf := make([]byte, mib)
	for len(p.present) > 0 {
		if p.ended {
			b := p.present[0]
			return truncated(fmt.Sprintf("block %d of its disk", b.number()), b.offset(), p.stored(b))
		}
		at := p.next
		unit, err := p.take(buf)
		if err != nil {
			return err
		}
		if err := p.emit(at, unit, sink); err != nil {
			return err
		}
	}
	return nil
}

// emit hands over what a unit at an offset of the image gives to the disk.
func (p *pass) emit(at int64, unit []byte, sink image.Sink) error {
	if len(p.present) == 0 || at < p.present[0].offset() {
		return nil
	}
	b := p.present[0]
	within := at - b.offset()
	n := min(mib, p.stored(b)-within)
	if int64(len(unit)) < n {
		return truncated(fmt.Sprintf("block %d of its disk", b.number()), b.offset(), p.stored(b))
	}
	mark := at + mib
	if within+n == p.stored(b) {
		p.present = p.present[1:]
		mark = at // nothing is wanted behind the last block
		if len(p.present) > 0 {
			mark = p.present[0].offset()
		}
	}
	return sink(image.Piece{Offset: b.number()*p.blockSize + within, Len: int(n), Full: int(n), Mark: mark}, unit[:n])
}
