// Package xz unpacks .xz files (The .xz File Format, version 1.2.1), with blocks that tell their sizes decoded several at
// a time, as xz -T makes them, and any others one chunk after the other.
//
// It reads forward, in memory that is bounded by its options and not by what a header says, and checks every checksum and
// the index. It decodes LZMA2 without further filters. It must not know what is packed.
package xz

import (
	"bufio"
	"hash"
	"io"
	"sync"
	"sync/atomic"

	"vmdisk.io/vmdisk/internal/stream"
)

// Options bound a Reader.
type Options struct {
	// MemoryBytes is about how much it may hold. A block whose window is larger is an error of kind
	// stream.TooMuchMemory.
	MemoryBytes int64
	// Workers is how many blocks are decoded at a time, memory permitting; at least 1.
	Workers int
}

// Reader unpacks one file. Its errors are *stream.FormatError, io.ErrUnexpectedEOF, those of the reader below, and
// others that say in which way the file is corrupt.
type Reader struct {
	in      *bufio.Reader
	options Options
	err     error

	check    check
	blocks   tally
	began    bool // there was a stream
	inStream bool
	pending  *block // read, but not begun
	atIndex  bool
	ahead    error // found while blocks before it are still decoded

	queue  []*job
	packed pool
	spare  []*lzma2 // of jobs that are done
	group  sync.WaitGroup
	stop   atomic.Bool
	single *single
}

// NewReader answers a Reader of the file that r reads.
func NewReader(r io.Reader, o Options) *Reader {
	o.Workers = max(o.Workers, 1)
	return &Reader{in: bufio.NewReaderSize(r, 256<<10), options: o}
}

// Close ends what the Reader has started, and waits for it.
func (r *Reader) Close() error {
	r.stop.Store(true)
	r.group.Wait()
	return nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	for r.err == nil {
		switch {
		case r.single != nil:
			n, err = r.single.take(p)
			if err == io.EOF {
				r.ended(r.single.header, r.single.taken)
				r.spare, r.single, err = append(r.spare, r.single.lzma2), nil, nil
			}
		case len(r.queue) > 0:
			if r.ahead == nil {
				r.ahead = r.fill()
			}
			n, err = r.queue[0].take(p)
			if err == io.EOF {
				r.retire()
				err = nil
			}
		default:
			err = r.advance()
		}
		r.err = err
		if n > 0 {
			return n, nil
		}
	}
	return 0, r.err
}

// Held is about how many bytes it holds, or will when the block that it decodes goes on for long enough. Like Confine, it must
// not be called while something reads.
func (r *Reader) Held() int64 {
	held := r.used()
	if r.single != nil {
		held += int64(r.single.lzma2.limit)
	}
	for _, d := range r.spare {
		held += int64(cap(d.buf))
	}
	return held
}

// Confine sets other options for the blocks that are still to be begun.
func (r *Reader) Confine(o Options) {
	o.Workers = max(o.Workers, 1)
	r.options = o
}

// ended counts a block that is done.
func (r *Reader) ended(b block, decoded int64) {
	r.blocks.add(int64(b.headerLen)+b.packed+int64(r.check.size()), decoded)
}

// retire takes the first job from the queue, which is done.
func (r *Reader) retire() {
	j := r.queue[0]
	r.queue = r.queue[1:]
	r.ended(j.block, j.block.decoded)
	r.spare = append(r.spare, j.lzma2)
}

// advance begins the next block, or ends the stream. No block is being decoded.
func (r *Reader) advance() error {
	if r.ahead != nil {
		return r.ahead
	}
	if !r.inStream {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if err := r.fill(); err != nil || len(r.queue) > 0 {
		r.ahead = err
		if len(r.queue) > 0 {
			return nil
		}
		return err
	}
	if r.atIndex {
		if err := readIndex(r.in, r.check, r.blocks); err != nil {
			return err
		}
		r.atIndex, r.inStream = false, false
		return nil
	}
	return r.beginSingle()
}

// begin reads the header of the first stream, or the padding before another one (section 2.2), or answers io.EOF at the
// end of the file.
func (r *Reader) begin() error {
	first := !r.began
	for {
		var b [4]byte
		n, err := io.ReadFull(r.in, b[:])
		if err == io.EOF && !first {
			return io.EOF
		}
		if err == io.ErrUnexpectedEOF && b == [4]byte{} && !first {
			return errPadding4
		}
		if string(b[:n]) == headerMagic[:n] {
			if err != nil {
				return cut(err)
			}
			c, err := readStreamHeader(r.in, b[:])
			if err != nil {
				return err
			}
			if _, err := c.hash(); err != nil {
				return err
			}
			r.check, r.blocks, r.inStream, r.began = c, tally{}, true, true
			return nil
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return cut(err)
		}
		if first || b != [4]byte{} {
			return stream.FormatErrorf(stream.Corrupt, "there is trailing garbage behind the end of the xz stream: the file was damaged or put together wrongly; make it again")
		}
	}
}

// fill begins jobs while there are blocks that can be decoded beside others, and room for them.
func (r *Reader) fill() error {
	for !r.atIndex {
		if r.pending == nil {
			first, err := r.in.ReadByte()
			if err != nil {
				return cut(err)
			}
			if first == 0 {
				r.atIndex = true
				return nil
			}
			b, err := readBlockHeader(r.in, first)
			if err != nil {
				return err
			}
			r.pending = &b
		}
		b := *r.pending
		if !r.fits(b) || len(r.queue) == r.options.Workers || r.used()+need(b) > r.options.MemoryBytes {
			return nil
		}
		data, err := readPacked(r.in, b.packed+padded(b.packed)+int64(r.check.size()), &r.packed)
		if err != nil {
			return err
		}
		j := newJob(b, r.check, r.decoder(b), data, &r.stop)
		r.queue, r.pending = append(r.queue, j), nil
		r.group.Go(j.run)
	}
	return nil
}

// fits reports whether a block can be decoded beside others: its sizes are known, and small enough.
func (r *Reader) fits(b block) bool {
	most := r.options.MemoryBytes
	return b.packed >= 0 && b.decoded >= 0 && b.packed <= most && b.decoded <= most && need(b) <= most
}

// need is how many bytes the job of a block takes.
func need(b block) int64 { return b.packed + b.decoded }

// padded is how many bytes of padding follow the data of a block.
func padded(packed int64) int64 { return -packed & 3 }

// used is about how many bytes the queue's jobs hold. What a job has read of its packed bytes is free again.
func (r *Reader) used() int64 {
	used := r.packed.held()
	for _, j := range r.queue {
		used += j.room
	}
	return used
}

// decoder answers a decoder for a block, that of a job that is done where its buffer is large enough.
func (r *Reader) decoder(b block) *lzma2 {
	d := &lzma2{}
	if n := len(r.spare); n > 0 {
		d, r.spare = r.spare[n-1], r.spare[:n-1]
	}
	if int64(cap(d.buf)) < b.decoded || r.used()+int64(cap(d.buf)) > r.options.MemoryBytes {
		d.buf = make([]byte, 0, b.decoded)
		r.packed.drop()
	}
	d.restart(b.dict, int(b.decoded))
	return d
}

// single decodes a block that is too large for a job, or doesn't tell its sizes.
type single struct {
	header  block // packed is counted
	want    block
	in      *bufio.Reader
	check   check
	hash    hash.Hash
	lzma2   *lzma2
	out     []byte
	taken   int64
	decoded int64
}

func (r *Reader) beginSingle() error {
	b := *r.pending
	r.pending = nil
	window := int64(b.dict)
	if b.decoded >= 0 {
		window = min(window, b.decoded)
	}
	if window > r.options.MemoryBytes {
		return stream.FormatErrorf(stream.TooMuchMemory, "unpacking the xz stream needs a window of %d MiB, and %d MiB of memory are allowed: compress the file with a smaller dictionary, such as xz -6 has",
			window>>20, r.options.MemoryBytes>>20)
	}
	h, err := r.check.hash()
	if err != nil {
		return err
	}
	d := &lzma2{}
	if n := len(r.spare); n > 0 {
		d = r.spare[n-1]
	}
	r.spare = nil // their buffers are memory, too
	r.packed.drop()
	d.restart(uint32(window), int(window)+maxChunk+int(min(window, 8<<20)))
	s := &single{header: b, want: b, in: r.in, check: r.check, hash: h, lzma2: d}
	s.header.packed = 0
	r.single = s
	return nil
}

// take copies what is decoded to p. It answers io.EOF when all was taken and the block is sound.
func (s *single) take(p []byte) (int, error) {
	if len(s.out) == 0 {
		out, took, err := s.lzma2.chunk(s.in)
		s.header.packed += int64(took)
		if err == io.EOF && s.lzma2.ended {
			return 0, s.end()
		}
		if err != nil {
			return 0, cut(err)
		}
		s.decoded += int64(len(out))
		if s.want.decoded >= 0 && s.decoded > s.want.decoded || s.want.packed >= 0 && s.header.packed > s.want.packed {
			return 0, errSize
		}
		if s.hash != nil {
			s.hash.Write(out) // a hash never answers an error
		}
		s.out = out
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	s.taken += int64(n)
	return n, nil
}

func (s *single) end() error {
	if s.want.decoded >= 0 && s.decoded != s.want.decoded || s.want.packed >= 0 && s.header.packed != s.want.packed {
		return errSize
	}
	end := make([]byte, padded(s.header.packed)+int64(s.check.size()))
	if _, err := io.ReadFull(s.in, end); err != nil {
		return cut(err)
	}
	if err := checkEnd(end, s.check, s.hash); err != nil {
		return err
	}
	return io.EOF
}
