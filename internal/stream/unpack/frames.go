package unpack

import (
	"encoding/binary"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"vmdisk.io/vmdisk/internal/stream"
)

// Each frame costs its decoder some time, and may have nothing in it: more than manyFrames are only read if they are longer
// than shortFrame, in bytes, on average.
const (
	manyFrames = 1 << 16
	shortFrame = 32
)

// frames passes a Zstandard stream through and sees, by the frames' and blocks' headers (RFC 8878, section 3.1), that it
// ends where a frame does: the decoder takes a few bytes more or less for a good end; and that no frame's window is larger than
// it may be now, which the decoder can be told only once. Nothing is decoded.
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

	count int   // frames
	bytes int64 // of them

	flags  byte         // of the frame whose header is read
	most   atomic.Int64 // bytes of a window
	widest atomic.Int64 // window that there was, in bytes
}

func newFrames(r io.Reader, most int64) *frames {
	f := &frames{r: r, head: make([]byte, 0, 16)}
	f.most.Store(most)
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
	f.bytes += int64(n)
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
	if f.count++; f.count > manyFrames && f.bytes/int64(f.count) < shortFrame {
		return stream.FormatErrorf(stream.Corrupt, "the zstd stream is %d frames with next to nothing in them: it was made to keep its reader busy, or was put together wrongly", f.count)
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

// descriptor reads what a frame's header has (section 3.1.1.1.1).
func (f *frames) descriptor() error {
	f.flags = f.head[0]
	n := f.dictionaryLen() + [4]int{0, 2, 4, 8}[f.flags>>6]
	if !f.isSingle() || f.flags>>6 == 0 {
		n++ // the window, or a size of one byte
	}
	if f.flags&4 != 0 {
		f.sum = 4
	}
	f.expect(n, (*frames).rest)
	return nil
}

// isSingle reports whether the window is as large as the content.
func (f *frames) isSingle() bool { return f.flags&0x20 != 0 }

func (f *frames) dictionaryLen() int { return [4]int{0, 1, 2, 4}[f.flags&3] }

// rest reads the window from the rest of a frame's header (sections 3.1.1.1.2 and 3.1.1.1.4).
func (f *frames) rest() error {
	var window uint64
	if f.isSingle() {
		var size [8]byte
		copy(size[:], f.head[f.dictionaryLen():])
		if window = binary.LittleEndian.Uint64(size[:]); f.flags>>6 == 1 {
			window += 256
		}
	} else {
		base := uint64(1) << (10 + f.head[0]>>3)
		window = base + base/8*uint64(f.head[0]&7)
	}
	if window > uint64(max(f.most.Load(), zstd.MinWindowSize)) {
		return f.tooLarge()
	}
	f.widest.Store(max(f.widest.Load(), int64(window)))
	f.expect(3, (*frames).block)
	return nil
}

func (f *frames) tooLarge() error {
	return stream.FormatErrorf(stream.TooMuchMemory, "unpacking the zstd stream needs a window of more than the %d MiB of memory that are allowed: compress the file without --long or --ultra", f.most.Load()>>20)
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
