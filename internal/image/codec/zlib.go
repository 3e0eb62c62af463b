package codec

import (
	"encoding/binary"
	"errors"
	"hash/adler32"
)

var (
	errNotZlib  = errors.New("it is not a zlib stream")
	errLong     = errors.New("it goes on when it has given all of its bytes")
	errChecksum = errors.New("its checksum is another one than its bytes have")
)

// ZlibHeader is the length in bytes of a zlib stream's header; a deflate stream follows it.
const ZlibHeader = 2

// IsZlib reports whether b begins as a zlib stream (RFC 1950, section 2.2) without a preset dictionary.
func IsZlib(b []byte) bool {
	return len(b) >= ZlibHeader && b[0]&0xf == 8 && b[0]>>4 <= 7 && binary.BigEndian.Uint16(b)%31 == 0 && b[1]&0x20 == 0
}

func (d *Decoder) decodeZlib(dst, stored []byte) error {
	if !IsZlib(stored) {
		return errNotZlib
	}
	if d.inflater == nil {
		d.inflater = newInflater()
	}
	f := d.inflater
	defer f.release()
	if err := f.inflate(dst, stored[ZlibHeader:]); err != nil {
		return err
	}
	if err := f.finish(); err != nil {
		return err
	}
	f.at -= int(f.n / 8) // whole bytes that buf took go back
	if len(f.src)-f.at < 4 {
		return errShort
	}
	if binary.BigEndian.Uint32(f.src[f.at:]) != adler32.Checksum(dst) {
		return errChecksum
	}
	return nil
}

// release lets go of the input.
func (f *inflater) release() { f.src = nil }

// finish reads what is left of the stream when its output is complete: the end of the block, and empty blocks.
func (f *inflater) finish() error {
	for {
		if f.rest > 0 {
			return errLong
		}
		if f.header>>1 != 0 {
			e, err := f.symbol(&f.literal)
			if err != nil {
				return err
			}
			if e&kindMask != kindOther {
				return errLong
			}
		}
		if f.header&1 != 0 {
			return nil
		}
		if _, err := f.begin(nil, 0); err != nil {
			return err
		}
	}
}
