package codec

import (
	"encoding/binary"
	"errors"
	"hash/adler32"

	"vmdisk.io/vmdisk/internal/stream/inflate"
)

var (
	errNotZlib  = errors.New("it is not a zlib stream")
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
		d.inflater = inflate.New()
	}
	defer d.inflater.Release()
	if err := d.inflater.Decode(dst, stored[ZlibHeader:]); err != nil {
		return err
	}
	sum, err := d.inflater.Finish()
	if err != nil {
		return err
	}
	if len(sum) < 4 {
		return inflate.ErrShort
	}
	if binary.BigEndian.Uint32(sum) != adler32.Checksum(dst) {
		return errChecksum
	}
	return nil
}
