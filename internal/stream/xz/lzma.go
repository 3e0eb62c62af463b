package xz

// The range decoder and the decoder of LZMA's symbols. An input is one LZMA2 chunk, wholly in memory, and the output one
// buffer that is also the window, so that neither needs bookkeeping while a symbol is decoded.

const (
	probBits  = 11
	probInit  = 1 << (probBits - 1)
	moveBits  = 5
	topValue  = 1 << 24
	states    = 12
	posStates = 16
	minMatch  = 2
	// inputSlack is how many bytes behind a chunk must be readable: a symbol takes fewer.
	inputSlack = 32
)

type prob = uint16

// lengths are the probabilities of a match's length.
type lengths struct {
	choice [2]prob
	low    [posStates][8]prob
	mid    [posStates][8]prob
	high   [256]prob
}

// lzma is what a decoder of LZMA symbols remembers between chunks.
type lzma struct {
	lc, lp, pb uint
	state      uint32
	rep        [4]uint32 // distances less one

	probs
	literal [0x300 << 4]prob // lc+lp is at most 4

	// The range decoder.
	src      []byte
	at       int
	rng, cod uint32
}

// probs are the probabilities of all but literals.
type probs struct {
	isMatch    [states][posStates]prob
	isRep      [states]prob
	isRepG0    [states]prob
	isRepG1    [states]prob
	isRepG2    [states]prob
	isRep0Long [states][posStates]prob
	slot       [4][64]prob
	special    [128]prob
	align      [16]prob
	match, re  lengths
}

// setProps takes the byte that holds lc, lp and pb, and reports whether LZMA2 allows it.
func (d *lzma) setProps(b byte) bool {
	if b >= 9*5*5 {
		return false
	}
	d.lc, d.lp, d.pb = uint(b%9), uint(b/9%5), uint(b/45)
	return d.lc+d.lp <= 4
}

// reset forgets all but lc, lp and pb.
func (d *lzma) reset() {
	d.state, d.rep = 0, [4]uint32{}
	p := &d.probs
	for i := range states {
		fill(p.isMatch[i][:])
		fill(p.isRep0Long[i][:])
	}
	for _, s := range [][]prob{p.isRep[:], p.isRepG0[:], p.isRepG1[:], p.isRepG2[:], p.special[:], p.align[:], d.literal[:0x300<<(d.lc+d.lp)]} {
		fill(s)
	}
	for i := range p.slot {
		fill(p.slot[i][:])
	}
	for _, l := range []*lengths{&p.match, &p.re} {
		fill(l.choice[:])
		fill(l.high[:])
		for i := range posStates {
			fill(l.low[i][:])
			fill(l.mid[i][:])
		}
	}
}

func fill(p []prob) {
	for i := range p {
		p[i] = probInit
	}
}

// begin starts the range decoder on a chunk, behind which src has inputSlack bytes. It answers false for a chunk that
// can't be one.
func (d *lzma) begin(src []byte) bool {
	if src[0] != 0 {
		return false
	}
	d.src, d.at, d.rng = src, 5, 0xffffffff
	d.cod = uint32(src[1])<<24 | uint32(src[2])<<16 | uint32(src[3])<<8 | uint32(src[4])
	return true
}

// bit decodes one bit.
func (d *lzma) bit(p *prob) uint32 {
	if d.rng < topValue {
		d.rng <<= 8
		d.cod = d.cod<<8 | uint32(d.src[d.at])
		d.at++
	}
	v := uint32(*p)
	bound := d.rng >> probBits * v
	if d.cod < bound {
		d.rng = bound
		*p = prob(v + (1<<probBits-v)>>moveBits)
		return 0
	}
	d.rng -= bound
	d.cod -= bound
	*p = prob(v - v>>moveBits)
	return 1
}

// tree decodes n bits, the highest first, and answers them with a one before them.
func (d *lzma) tree(p []prob, n uint) uint32 {
	src, at, rng, cod := d.src, d.at, d.rng, d.cod
	m := uint32(1)
	for range n {
		if rng < topValue {
			rng <<= 8
			cod = cod<<8 | uint32(src[at])
			at++
		}
		q := &p[m]
		v := uint32(*q)
		bound := rng >> probBits * v
		if cod < bound {
			rng = bound
			*q = prob(v + (1<<probBits-v)>>moveBits)
			m <<= 1
		} else {
			rng -= bound
			cod -= bound
			*q = prob(v - v>>moveBits)
			m = m<<1 | 1
		}
	}
	d.at, d.rng, d.cod = at, rng, cod
	return m
}

// reverse decodes n bits, the lowest first.
func (d *lzma) reverse(p []prob, n uint) uint32 {
	m, sum := uint32(1), uint32(0)
	for i := range n {
		b := d.bit(&p[m])
		m = m<<1 | b
		sum |= b << i
	}
	return sum
}

// direct decodes n bits that have no probabilities.
func (d *lzma) direct(n uint) uint32 {
	src, at, rng, cod := d.src, d.at, d.rng, d.cod
	var v uint32
	for range n {
		if rng < topValue {
			rng <<= 8
			cod = cod<<8 | uint32(src[at])
			at++
		}
		rng >>= 1
		cod -= rng
		mask := 0 - cod>>31 // all ones where cod was less
		cod += rng & mask
		v = v<<1 + mask + 1
	}
	d.at, d.rng, d.cod = at, rng, cod
	return v
}

// matched decodes a literal behind a match, with the byte that the match would have gone on with.
func (d *lzma) matched(p []prob, with uint32) byte {
	src, at, rng, cod := d.src, d.at, d.rng, d.cod
	_ = p[0x2ff]
	m, offset := uint32(1), uint32(0x100)
	for m < 0x100 {
		if rng < topValue {
			rng <<= 8
			cod = cod<<8 | uint32(src[at])
			at++
		}
		with <<= 1
		bit := with & offset
		q := &p[offset+bit+m]
		v := uint32(*q)
		bound := rng >> probBits * v
		if cod < bound {
			rng = bound
			*q = prob(v + (1<<probBits-v)>>moveBits)
			m <<= 1
			offset &^= bit
		} else {
			rng -= bound
			cod -= bound
			*q = prob(v - v>>moveBits)
			m = m<<1 | 1
			offset &= bit
		}
	}
	d.at, d.rng, d.cod = at, rng, cod
	return byte(m)
}

// length decodes a match's length.
func (d *lzma) length(l *lengths, posState uint) int {
	if d.bit(&l.choice[0]) == 0 {
		return minMatch + int(d.tree(l.low[posState][:], 3)) - 8
	}
	if d.bit(&l.choice[1]) == 0 {
		return minMatch + 8 + int(d.tree(l.mid[posState][:], 3)) - 8
	}
	return minMatch + 16 + int(d.tree(l.high[:], 8)) - 256
}

// distance decodes a match's distance less one.
func (d *lzma) distance(length int) uint32 {
	slot := d.tree(d.slot[min(length-minMatch, 3)][:], 6) - 64
	if slot < 4 {
		return slot
	}
	n := uint(slot>>1 - 1)
	base := (2 | slot&1) << n
	if slot < 14 {
		return base + d.reverse(d.special[base-slot:], n)
	}
	return base + d.direct(n-4)<<4 + d.reverse(d.align[:], 4)
}

// decode fills buf[out:end] from the chunk of n bytes at d.src. The window begins at buf[start], positions count from
// origin, and no distance is larger than dict. It reports whether the chunk is sound.
func (d *lzma) decode(buf []byte, out, end, start, origin int, dict uint32, n int) bool {
	posMask, litMask, lc := uint(1)<<d.pb-1, uint(1)<<d.lp-1, d.lc
	buf = buf[:end]
	for out < end {
		if d.at > n {
			return false
		}
		pos := uint(out - origin)
		posState := pos & posMask
		state := d.state
		if d.bit(&d.isMatch[state][posState]) == 0 {
			var before uint
			if out > start {
				before = uint(buf[out-1])
			}
			p := d.literal[0x300*((pos&litMask)<<lc+before>>(8-lc)):][:0x300]
			if state < 7 {
				buf[out] = byte(d.tree(p, 8))
			} else {
				if int64(d.rep[0]) >= int64(out-start) {
					return false
				}
				buf[out] = d.matched(p, uint32(buf[out-int(d.rep[0])-1]))
			}
			out++
			switch {
			case state < 4:
				d.state = 0
			case state < 10:
				d.state = state - 3
			default:
				d.state = state - 6
			}
			continue
		}
		var length int
		if d.bit(&d.isRep[state]) == 0 {
			length = d.length(&d.match, posState)
			d.rep[3], d.rep[2], d.rep[1] = d.rep[2], d.rep[1], d.rep[0]
			d.rep[0] = d.distance(length)
			d.state = after(state, 7, 10)
		} else {
			length = d.repeated(state, posState)
		}
		distance := int64(d.rep[0]) + 1
		if distance > int64(out-start) || distance > int64(dict) || length > end-out {
			return false
		}
		repeat(buf, out, int(distance), length)
		out += length
	}
	// What is left in the decoder must be nothing.
	if d.rng < topValue {
		d.rng <<= 8
		d.cod = d.cod<<8 | uint32(d.src[d.at])
		d.at++
	}
	return d.at == n && d.cod == 0
}

// repeated decodes a match whose distance was used before, brings that to the front, and answers its length.
func (d *lzma) repeated(state uint32, posState uint) int {
	if d.bit(&d.isRepG0[state]) == 0 {
		if d.bit(&d.isRep0Long[state][posState]) == 0 {
			d.state = after(state, 9, 11)
			return 1
		}
	} else {
		distance := d.rep[1]
		if d.bit(&d.isRepG1[state]) != 0 {
			distance = d.rep[2]
			if d.bit(&d.isRepG2[state]) != 0 {
				distance = d.rep[3]
				d.rep[3] = d.rep[2]
			}
			d.rep[2] = d.rep[1]
		}
		d.rep[1] = d.rep[0]
		d.rep[0] = distance
	}
	d.state = after(state, 8, 11)
	return d.length(&d.re, posState)
}

func after(state, literal, match uint32) uint32 {
	if state < 7 {
		return literal
	}
	return match
}

// repeat copies length bytes from distance before out.
func repeat(buf []byte, out, distance, length int) {
	if distance == 1 && buf[out-1] == 0 {
		clear(buf[out : out+length])
		return
	}
	from := out - distance
	for length > 0 {
		n := copy(buf[out:out+length], buf[from:out])
		out += n
		length -= n
	}
}
