package xz

import (
	"io"
	"sync"
)

// pieceBytes is how long a piece of packed bytes is.
const pieceBytes = 256 << 10

// pool has the pieces that packed bytes are held in. They are used again, so that blocks of different sizes leave no garbage behind. It
// may be used by several goroutines.
type pool struct {
	mu   sync.Mutex
	free [][]byte
	used int64 // bytes that somebody holds
}

func (p *pool) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += pieceBytes
	if n := len(p.free); n > 0 {
		piece := p.free[n-1]
		p.free = p.free[:n-1]
		return piece
	}
	return make([]byte, pieceBytes)
}

func (p *pool) put(piece []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= pieceBytes
	p.free = append(p.free, piece[:pieceBytes])
}

// held is how many bytes are in use.
func (p *pool) held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// drop forgets the pieces that nobody holds.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = nil
}

// packed is a block behind its header: data, padding, checksum. What was read of it goes back to the pool.
type packed struct {
	pool   *pool
	pieces [][]byte
	at     int // of the first piece
}

// readPacked reads n bytes.
func readPacked(in io.Reader, n int64, from *pool) (*packed, error) {
	p := &packed{pool: from}
	for n > 0 {
		piece := from.get()[:min(n, pieceBytes)]
		p.pieces = append(p.pieces, piece)
		if _, err := io.ReadFull(in, piece); err != nil {
			return nil, cut(err)
		}
		n -= int64(len(piece))
	}
	return p, nil
}

// Read implements io.Reader.
func (p *packed) Read(b []byte) (int, error) {
	if len(p.pieces) == 0 {
		return 0, io.EOF
	}
	piece := p.pieces[0]
	n := copy(b, piece[p.at:])
	p.at += n
	if p.at == len(piece) {
		p.pool.put(piece)
		p.pieces, p.at = p.pieces[1:], 0
	}
	return n, nil
}
