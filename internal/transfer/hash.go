package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"vmdisk.io/vmdisk/internal/target"
)

const (
	// hashBlock is the length of a content hash's blocks, in bytes.
	hashBlock = 4 << 20
	// hashLag is how many blocks that were written to wait before the oldest is hashed: by then it is likely to be whole,
	// and the kernel still remembers it.
	hashLag = 8
	// maxHashBlocks is how many blocks are remembered. A disk with more in use has no content hash.
	maxHashBlocks = 1 << 18
)

// hashPrefix says how a content hash was computed.
const hashPrefix = "sha256-4MiB:"

// leaf is the hash of one block.
type leaf [sha256.Size]byte

// diskHash computes the hash of a disk's content: SHA-256 over the SHA-256 of each of its blocks of 4 MiB, in their order;
// the last block is as long as the disk has bytes. What is the same disk has the same hash, whatever image it came in.
//
// Blocks are filled in any order, a part at a time, so they are read back when they seem to be whole, and again if they
// weren't. Blocks that nobody writes to are zero, and cost nothing.
type diskHash struct {
	target io.ReaderAt
	more   chan struct{} // has a value when more than hashLag blocks wait

	mu     sync.Mutex
	blocks map[int64]*hashedBlock
	queue  []int64 // blocks to be hashed, oldest first
	full   bool    // there were too many
}

// hashedBlock is a block that was written to.
type hashedBlock struct {
	changes int
	waiting bool // it is in the queue
	hashed  bool
	sum     leaf
}

func newDiskHash(t io.ReaderAt) *diskHash {
	return &diskHash{target: t, more: make(chan struct{}, 1), blocks: map[int64]*hashedBlock{}}
}

// wrote takes note of n bytes that were written at offset. A nil diskHash takes none.
func (h *diskHash) wrote(offset int64, n int) {
	if h == nil || n == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for b := offset / hashBlock; b <= (offset+int64(n)-1)/hashBlock && !h.full; b++ {
		h.touch(b)
	}
	if len(h.queue) > hashLag {
		select {
		case h.more <- struct{}{}:
		default: // somebody will look anyhow
		}
	}
}

// touch is called with mu held.
func (h *diskHash) touch(b int64) {
	s := h.blocks[b]
	if s == nil {
		if len(h.blocks) == maxHashBlocks {
			h.full, h.blocks, h.queue = true, nil, nil
			return
		}
		s = &hashedBlock{}
		h.blocks[b] = s
	}
	s.changes++
	s.hashed = false
	if !s.waiting {
		s.waiting = true
		h.queue = append(h.queue, b)
	}
}

// follow hashes blocks of a disk of size bytes behind those who write, until stop is closed.
func (h *diskHash) follow(size int64, stop <-chan struct{}) error {
	buffer := make([]byte, hashBlock)
	for {
		select {
		case <-stop:
			return nil
		case <-h.more:
		}
		for b, ok := h.next(hashLag); ok; b, ok = h.next(hashLag) {
			if err := h.hash(b, size, buffer); err != nil {
				return err
			}
		}
	}
}

// next takes the oldest block from the queue where more than lag wait.
func (h *diskHash) next(lag int) (int64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) <= lag {
		return 0, false
	}
	b := h.queue[0]
	h.queue = h.queue[1:]
	return b, true
}

// hash reads and hashes a block. If it is written to meanwhile, it is in the queue again.
func (h *diskHash) hash(b, size int64, buffer []byte) error {
	h.mu.Lock()
	s := h.blocks[b]
	if s == nil { // they were given up
		h.mu.Unlock()
		return nil
	}
	changes := s.changes
	s.waiting = false
	h.mu.Unlock()
	sum, err := readLeaf(h.target, b, size, buffer)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.changes == changes {
		s.sum, s.hashed = sum, true
	}
	return nil
}

// readLeaf reads a block of a disk of size bytes and answers its hash.
func readLeaf(t io.ReaderAt, b, size int64, buffer []byte) (leaf, error) {
	p := buffer[:min(hashBlock, size-b*hashBlock)]
	if n, err := t.ReadAt(p, b*hashBlock); n < len(p) {
		return leaf{}, fmt.Errorf("read what was written, %d bytes at offset %d of the disk: %w", len(p), b*hashBlock, noEOF(err))
	}
	return sha256.Sum256(p), nil
}

// finish hashes what is left, and answers the hash of a disk of size bytes; empty where there are too many blocks.
// Where everything says so, also blocks that nobody wrote to are read: an earlier attempt may have.
func (h *diskHash) finish(ctx context.Context, size int64, everything bool, workers int) (string, error) {
	count := (size + hashBlock - 1) / hashBlock
	h.mu.Lock()
	for b := int64(0); everything && b < count && !h.full; b++ {
		if h.blocks[b] == nil && !h.hole(b) {
			h.touch(b)
		}
	}
	h.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error {
			buffer := make([]byte, hashBlock)
			for b, ok := h.next(0); ok; b, ok = h.next(0) {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := h.hash(b, size, buffer); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil || h.full {
		return "", err
	}
	root := sha256.New()
	zero := newZeroLeaves(size)
	for b := range count {
		sum := h.leaf(b, zero)
		root.Write(sum[:]) // a hash never answers an error
	}
	return hashPrefix + hex.EncodeToString(root.Sum(nil)), nil
}

// hole reports whether a block is known to be zero without being read.
func (h *diskHash) hole(b int64) bool {
	holed, ok := h.target.(target.Holed)
	return ok && holed.Hole(b*hashBlock, hashBlock)
}

// leaf is the hash of a block, after finish.
func (h *diskHash) leaf(b int64, zero zeroLeaves) leaf {
	if s := h.blocks[b]; s != nil {
		return s.sum
	}
	return zero.leaf(b)
}

// zeroLeaves are the hashes of blocks of zeros.
type zeroLeaves struct {
	whole, last leaf
	lastBlock   int64
}

func newZeroLeaves(size int64) zeroLeaves {
	zeros := make([]byte, hashBlock)
	z := zeroLeaves{whole: sha256.Sum256(zeros), lastBlock: size / hashBlock}
	z.last = sha256.Sum256(zeros[:size%hashBlock])
	return z
}

func (z zeroLeaves) leaf(b int64) leaf {
	if b == z.lastBlock {
		return z.last
	}
	return z.whole
}

// verify reads a disk of size bytes back from its storage and compares each block with what was written.
func (h *diskHash) verify(ctx context.Context, size int64, workers int) error {
	zero := newZeroLeaves(size)
	group, ctx := errgroup.WithContext(ctx)
	blocks := make(chan int64)
	group.Go(func() error {
		defer close(blocks)
		for b := range (size + hashBlock - 1) / hashBlock {
			select {
			case blocks <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range workers {
		group.Go(func() error {
			buffer := make([]byte, hashBlock)
			for b := range blocks {
				sum := zero.leaf(b)
				if !h.hole(b) {
					var err error
					if sum, err = readLeaf(h.target, b, size, buffer); err != nil {
						return err
					}
				}
				if sum != h.leaf(b, zero) {
					return &target.Error{Reason: target.IO, Message: fmt.Sprintf("the disk doesn't hold what was written: the %d bytes at offset %d read back as other ones; its storage is not to be trusted", min(hashBlock, size-b*hashBlock), b*hashBlock)}
				}
			}
			return nil
		})
	}
	return group.Wait()
}
