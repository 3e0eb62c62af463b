package xz

import (
	"errors"
	"io"
)

const (
	// maxChunk is the largest output of one LZMA2 chunk, and maxPacked the largest input, in bytes.
	maxChunk  = 2 << 20
	maxPacked = 64 << 10
	// smallBuffer is how long the buffer is first, in bytes: enough for most small files.
	smallBuffer = 4 << 20
)

var errCorrupt = errors.New("it can't be decoded")

// lzma2 decodes one LZMA2 stream, as it is in a block. Its output buffer is the window, too.
type lzma2 struct {
	lzma
	dict   uint32 // bytes
	limit  int    // the length of buf at most
	buf    []byte // decoded: what was and what wasn't taken yet
	start  int    // of buf, where the window begins
	origin int    // of buf, from where positions count; may lie before it
	packed []byte

	needDict, needProps bool
	ended               bool
}

// restart makes the decoder ready for another stream, of which distances are dict bytes at most, and whose output buffer
// may become limit bytes long: as long as the whole output, or dict and maxChunk.
func (d *lzma2) restart(dict uint32, limit int) {
	d.dict, d.limit, d.buf = dict, limit, d.buf[:0]
	d.start, d.origin = 0, 0
	d.needDict, d.needProps, d.ended = true, true, false
	if d.packed == nil {
		d.packed = make([]byte, maxPacked+inputSlack)
	}
}

// chunk decodes the next chunk and answers its output, which is valid until the next call, and how many bytes of in it
// took. At the end of the stream it answers io.EOF.
func (d *lzma2) chunk(in io.Reader) (out []byte, took int, err error) {
	if d.ended {
		return nil, 0, io.EOF
	}
	var header [6]byte
	if _, err := io.ReadFull(in, header[:1]); err != nil {
		return nil, 0, err
	}
	control := header[0]
	if control == 0 {
		d.ended = true
		return nil, 1, io.EOF
	}
	plain, need := control < 0x80, 4
	switch {
	case plain:
		need = 2
	case control >= 0xc0:
		need = 5
	}
	if _, err := io.ReadFull(in, header[1:1+need]); err != nil {
		return nil, 0, cut(err)
	}
	if control > 2 && plain || d.needDict && control != 1 && control < 0xe0 {
		return nil, 0, errCorrupt
	}
	if control == 1 || control >= 0xe0 {
		d.needDict, d.needProps = false, true
		d.start, d.origin = len(d.buf), len(d.buf)
	}
	size := int(header[1])<<8 + int(header[2]) + 1
	if plain {
		out, err = d.copy(in, size)
		return out, 1 + need + size, err
	}
	size = int(control&0x1f)<<16 + int(header[1])<<8 + int(header[2]) + 1
	packed := int(header[3])<<8 + int(header[4]) + 1
	switch {
	case control >= 0xc0:
		if !d.setProps(header[5]) {
			return nil, 0, errCorrupt
		}
		d.needProps = false
		d.reset()
	case d.needProps:
		return nil, 0, errCorrupt
	case control >= 0xa0:
		d.reset()
	}
	out, err = d.unpack(in, size, packed)
	return out, 1 + need + packed, err
}

// copy takes a chunk that is stored as it is.
func (d *lzma2) copy(in io.Reader, size int) ([]byte, error) {
	at, err := d.room(size)
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(in, d.buf[at:])
	return d.buf[at:], cut(err)
}

func (d *lzma2) unpack(in io.Reader, size, packed int) ([]byte, error) {
	if packed < 5 {
		return nil, errCorrupt
	}
	if _, err := io.ReadFull(in, d.packed[:packed]); err != nil {
		return nil, cut(err)
	}
	clear(d.packed[packed : packed+inputSlack])
	if !d.begin(d.packed) {
		return nil, errCorrupt
	}
	at, err := d.room(size)
	if err != nil {
		return nil, err
	}
	if !d.decode(d.buf, at, at+size, d.start, d.origin, d.dict, packed) {
		return nil, errCorrupt
	}
	return d.buf[at:], nil
}

// room makes buf longer by size bytes and answers where they begin. Where it is at its limit, what is older than the
// window goes. It grows once, since a header may ask for more than the data do, and a second copy of a large window would be
// much.
func (d *lzma2) room(size int) (int, error) {
	if len(d.buf)+size > d.limit {
		drop := len(d.buf) - int(d.dict)
		if drop <= 0 || len(d.buf)-drop+size > d.limit {
			return 0, errCorrupt
		}
		copy(d.buf, d.buf[drop:])
		d.buf = d.buf[:len(d.buf)-drop]
		d.start, d.origin = max(0, d.start-drop), d.origin-drop
	}
	at := len(d.buf)
	if at+size > cap(d.buf) {
		most := d.limit // the kernel gives memory when it is touched
		if at+size <= smallBuffer {
			most = min(d.limit, smallBuffer)
		}
		grown := make([]byte, at, most)
		copy(grown, d.buf)
		d.buf = grown
	}
	d.buf = d.buf[:at+size]
	return at, nil
}

// cut is the error of a stream that ends where it must not.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
