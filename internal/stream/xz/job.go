package xz

import (
	"bytes"
	"errors"
	"hash"
	"io"
	"sync"
	"sync/atomic"
)

var (
	errSum  = errors.New("the checksum of a block is wrong")
	errSize = errors.New("a block doesn't have the size that its header tells")
)

// job decodes one block whose sizes are known, in a goroutine. What it has decoded can be taken while it goes on.
type job struct {
	block block
	check check
	lzma2 *lzma2
	data  *packed
	room  int64 // bytes of the decoder's buffer
	stop  *atomic.Bool

	mu    sync.Mutex
	news  sync.Cond
	out   []byte // decoded so far
	done  bool
	err   error // once it is done
	panic any   // likewise

	taken int // by the reader
}

func newJob(b block, c check, with *lzma2, data *packed, stop *atomic.Bool) *job {
	j := &job{block: b, check: c, lzma2: with, data: data, room: int64(cap(with.buf)), stop: stop}
	j.news.L = &j.mu
	return j
}

// run decodes the block.
func (j *job) run() {
	err := errors.New("interrupted")
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.panic = recover()
		j.done, j.err = true, err
		j.news.Broadcast()
	}()
	h, hashErr := j.check.hash()
	if hashErr != nil {
		err = hashErr
		return
	}
	in := &io.LimitedReader{R: j.data, N: j.block.packed}
	for !j.stop.Load() {
		out, _, chunkErr := j.lzma2.chunk(in)
		if chunkErr == io.EOF {
			err = j.end(in, h)
			return
		}
		if chunkErr != nil {
			err = chunkErr
			if errors.Is(chunkErr, io.ErrUnexpectedEOF) {
				err = errSize // the packed bytes are all there
			}
			return
		}
		if h != nil {
			h.Write(out) // a hash never answers an error
		}
		j.mu.Lock()
		j.out = j.lzma2.buf
		j.news.Broadcast()
		j.mu.Unlock()
	}
}

// end checks what is behind a block's data.
func (j *job) end(in *io.LimitedReader, h hash.Hash) error {
	if in.N != 0 || int64(len(j.lzma2.buf)) != j.block.decoded {
		return errSize
	}
	end := make([]byte, padded(j.block.packed)+int64(j.check.size()))
	if _, err := io.ReadFull(j.data, end); err != nil {
		return cut(err)
	}
	return checkEnd(end, j.check, h)
}

// checkEnd checks a block's padding and checksum (The .xz File Format 1.2.1, sections 3.3 and 3.4).
func checkEnd(end []byte, c check, h hash.Hash) error {
	padding := len(end) - c.size()
	for _, b := range end[:padding] {
		if b != 0 {
			return errPadding
		}
	}
	if h != nil && !bytes.Equal(sum(h), end[padding:]) {
		return errSum
	}
	return nil
}

// take copies what is decoded to p, and waits for it. It answers io.EOF when all was taken and the block is sound.
func (j *job) take(p []byte) (int, error) {
	j.mu.Lock()
	for len(j.out) == j.taken && !j.done {
		j.news.Wait()
	}
	out, done, err, fault := j.out, j.done, j.err, j.panic
	j.mu.Unlock()
	if n := copy(p, out[j.taken:]); n > 0 {
		j.taken += n
		return n, nil
	}
	if fault != nil {
		panic(fault) // where somebody expects it
	}
	if done && err == nil {
		err = io.EOF
	}
	return 0, err
}
