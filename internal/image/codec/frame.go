package codec

import (
	"encoding/binary"
	"errors"
)

var (
	errFrameMagic = errors.New("no frame where one should begin")
	errFrameCut   = errors.New("the frame goes on behind the end of its piece")
	errFrameBlock = errors.New("a block of a reserved type")
)

// frameLen is how many bytes the Zstandard frame at the beginning of b takes, by walking its block headers (RFC 8878,
// sections 3.1.1 and 3.1.2). Nothing is decoded.
func frameLen(b []byte) (int, error) {
	if len(b) < 5 {
		return 0, errFrameCut
	}
	magic := binary.LittleEndian.Uint32(b)
	if magic&^0xf == 0x184d2a50 { // skippable
		if len(b) < 8 {
			return 0, errFrameCut
		}
		n := 8 + int64(binary.LittleEndian.Uint32(b[4:]))
		if n > int64(len(b)) {
			return 0, errFrameCut
		}
		return int(n), nil
	}
	if magic != 0xfd2fb528 {
		return 0, errFrameMagic
	}
	descriptor := b[4]
	at := 5 + frameHeaderRest(descriptor)
	for last := false; !last; {
		if at+3 > len(b) {
			return 0, errFrameCut
		}
		header := uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16
		last = header&1 != 0
		at += 3
		switch size := int(header >> 3); header >> 1 & 3 {
		case 0, 2: // raw, compressed
			at += size
		case 1: // one byte, repeated
			at++
		default:
			return 0, errFrameBlock
		}
	}
	if descriptor&4 != 0 { // content checksum
		at += 4
	}
	if at > len(b) {
		return 0, errFrameCut
	}
	return at, nil
}

// frameHeaderRest is how many bytes of a frame's header follow its descriptor (RFC 8878, section 3.1.1.1.1).
func frameHeaderRest(descriptor byte) int {
	single := descriptor&0x20 != 0
	n := [4]int{0, 1, 2, 4}[descriptor&3] // dictionary
	if !single {
		n++ // window
	}
	switch descriptor >> 6 {
	case 0:
		if single {
			n++
		}
	case 1:
		n += 2
	case 2:
		n += 4
	case 3:
		n += 8
	}
	return n
}
