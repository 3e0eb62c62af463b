package unpack

import (
	"encoding/binary"
	"io"

	"vmdisk.io/vmdisk/internal/stream"
)

// frames passes a Zstandard stream through and sees, by the frames' and blocks' headers (RFC 8878, section 3.1), that it
// ends where a frame does: the decoder takes a few bytes more or less for a good end. Nothing is decoded.
type frames struct {
	r      io.Reader
	step   func(*frames) error // takes head when it is complete
	head   []byte
	want   int   // bytes of head
	skip   int64 // bytes before the next head
	sum    int64 // bytes of a checksum behind the frame
	began  bool  // there was a frame
	inside bool  // a frame that is not at its end
	err    error
}

func newFrames(r io.Reader) *frames {
	f := &frames{r: r, head: make([]byte, 0, 4)}
	f.expect(4, (*frames).magic)
	return f
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.r.Read(p)
	f.err = err
	if scanErr := f.scan(p[:n]); scanErr != nil {
		f.err = scanErr
		return 0, scanErr
	}
	if err == io.EOF {
		f.err = f.end()
	}
	return n, f.err
}

func (f *frames) expect(n int, step func(*frames) error) {
	f.head, f.want, f.step = f.head[:0], n, step
}

func (f *frames) scan(b []byte) error {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, int64(len(b)))
			f.skip -= n
			b = b[n:]
			continue
		}
		n := min(f.want-len(f.head), len(b))
		f.head = append(f.head, b[:n]...)
		b = b[n:]
		if len(f.head) == f.want {
			if err := f.step(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// end answers io.EOF where the stream may end.
func (f *frames) end() error {
	between := f.began && !f.inside && f.skip == 0
	switch {
	case between && len(f.head) == 0:
		return io.EOF
	case between && !isFrame(append(f.head, "\x28\xb5\x2f\xfd"[len(f.head):]...)):
		return trailing("zstd")
	default:
		return truncated("zstd")
	}
}

// isFrame reports whether four bytes begin a frame.
func isFrame(head []byte) bool {
	magic := binary.LittleEndian.Uint32(head)
	return magic == 0xfd2fb528 || magic&^0xf == 0x184d2a50
}

func (f *frames) magic() error {
	if !isFrame(f.head) {
		return trailing("zstd")
	}
	f.began, f.inside, f.sum = true, true, 0
	if f.head[1] == 0xb5 {
		f.expect(1, (*frames).descriptor)
		return nil
	}
	f.expect(4, func(f *frames) error {
		f.skip = int64(binary.LittleEndian.Uint32(f.head))
		f.next()
		return nil
	})
	return nil
}

// next expects another frame, or the end.
func (f *frames) next() {
	f.inside = false
	f.expect(4, (*frames).magic)
}

// descriptor passes over the rest of a frame's header (section 3.1.1.1).
func (f *frames) descriptor() error {
	d := f.head[0]
	f.skip = [4]int64{0, 1, 2, 4}[d&3] + [4]int64{0, 2, 4, 8}[d>>6]
	if single := d&0x20 != 0; !single || d>>6 == 0 {
		f.skip++ // the window, or a size of one byte
	}
	if d&4 != 0 {
		f.sum = 4
	}
	f.expect(3, (*frames).block)
	return nil
}

// block passes over a block (section 3.1.1.2).
func (f *frames) block() error {
	header := int64(f.head[0]) | int64(f.head[1])<<8 | int64(f.head[2])<<16
	f.skip = header >> 3
	switch header >> 1 & 3 {
	case 1:
		f.skip = 1 // it is repeated
	case 3:
		return stream.FormatErrorf(stream.Corrupt, "the zstd stream is corrupt: a block is of a reserved type; make the file again, or compare its checksum with the publisher's")
	}
	if header&1 != 0 {
		f.skip += f.sum
		f.next()
		return nil
	}
	f.expect(3, (*frames).block)
	return nil
}
