package inflate

import "math/bits"

// An entry of a decoding table says what the next bits of a stream are:
//
//	bits 0-3    how many bits the code has, within this table
//	bits 4-7    how many extra bits follow it; for a subtable, how many bits choose within it
//	bits 8-9    the kind
//	bits 16-31  the literal, the length's or distance's base, or where the subtable begins
type entry uint32

const (
	kindInvalid entry = iota << 8
	kindLiteral
	kindBase // a length or a distance
	kindOther
	kindMask entry = 3 << 8

	// Of kindOther, by the extra bits: the end of the block has none.
	endOfBlock = kindOther
)

func (e entry) codeBits() uint  { return uint(e & 15) }
func (e entry) extraBits() uint { return uint(e >> 4 & 15) }
func (e entry) value() int      { return int(e >> 16) }

const (
	maxCode  = 15 // bits of a code (RFC 1951, section 3.2.7)
	litRoot  = 11 // bits that choose within the first table
	distRoot = 8
	lenRoot  = 7

	literals  = 288
	distances = 32
	lengths   = 19 // code lengths
)

// table decodes one Huffman code. Codes that are longer than root bits go on in subtables behind the first table.
type table struct {
	root    uint
	entries []entry
}

// build makes the table of the code whose symbol i has lens[i] bits and stands for symbols[i]. It answers false for
// lengths that are no code (RFC 1951, section 3.2.2), apart from one that has no symbol, or one symbol of one bit.
func (t *table) build(lens []uint8, symbols []entry) bool {
	var count, next [maxCode + 1]int
	for _, n := range lens {
		count[n]++
	}
	longest, code := 0, 0
	for n := 1; n <= maxCode; n++ {
		code <<= 1
		next[n] = code
		code += count[n]
		if count[n] > 0 {
			longest = n
		}
	}
	if complete := code == 1<<maxCode; !complete && longest > 0 && (longest > 1 || count[1] > 1) {
		return false
	}
	if cap(t.entries) < 1<<t.root {
		t.entries = make([]entry, 1<<t.root, 2<<t.root)
	}
	t.entries = t.entries[:1<<t.root]
	clear(t.entries)
	subBits := uint(max(0, longest-int(t.root)))
	for symbol, n := range lens {
		if n == 0 {
			continue
		}
		code := uint(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		t.put(code, uint(n), symbols[symbol], subBits)
	}
	return true
}

// put enters a code of n bits, of which the first is the lowest.
func (t *table) put(code, n uint, e entry, subBits uint) {
	if n <= t.root {
		for i := code; i < 1<<t.root; i += 1 << n {
			t.entries[i] = e | entry(n)
		}
		return
	}
	prefix := code & (1<<t.root - 1)
	if t.entries[prefix] == 0 {
		t.entries[prefix] = kindOther | entry(len(t.entries))<<16 | entry(subBits)<<4 | entry(t.root)
		t.entries = append(t.entries, make([]entry, 1<<subBits)...)
	}
	sub := t.entries[t.entries[prefix].value():]
	for i := code >> t.root; i < 1<<subBits; i += 1 << (n - t.root) {
		sub[i] = e | entry(n-t.root)
	}
}

// literalSymbols are what the symbols of the literal and length code stand for (RFC 1951, section 3.2.5).
func literalSymbols() []entry {
	s := make([]entry, literals)
	for i := range 256 {
		s[i] = kindLiteral | entry(i)<<16
	}
	s[256] = endOfBlock
	base := 3
	for i := 257; i < 285; i++ {
		extra := max(0, (i-261)/4)
		s[i] = kindBase | entry(extra)<<4 | entry(base)<<16
		base += 1 << extra
	}
	s[285] = kindBase | 258<<16
	return s // 286 and 287 stay invalid
}

// distanceSymbols are what the symbols of the distance code stand for (RFC 1951, section 3.2.5).
func distanceSymbols() []entry {
	s := make([]entry, distances)
	base := 1
	for i := range 30 {
		extra := max(0, i/2-1)
		s[i] = kindBase | entry(extra)<<4 | entry(base)<<16
		base += 1 << extra
	}
	return s // 30 and 31 stay invalid
}

// lengthSymbols are what the symbols of the code of code lengths stand for: themselves.
func lengthSymbols() []entry {
	s := make([]entry, lengths)
	for i := range s {
		s[i] = kindLiteral | entry(i)<<16
	}
	return s
}
