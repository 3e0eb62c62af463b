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
	// contentBlock is the length of a content hash's blocks, in bytes.
	contentBlock = 4 << 20
	// contentLag is how many blocks that were written to wait before the oldest is hashed: by then it is likely to be whole,
	// and the kernel still remembers it.
	contentLag = 8
	// maxContentBlocks is how many blocks are remembered. A disk with more in use has no content hash.
	maxContentBlocks = 1 << 18
)

// contentPrefix says how a content hash was computed.
const contentPrefix = "sha256-4MiB:"

// leaf is the hash of one block.
type leaf [sha256.Size]byte

// content computes the hash of a disk's content: SHA-256 over the SHA-256 of each of its blocks of 4 MiB, in their order;
// the last block is as long as the disk has bytes. What is the same disk has the same hash, whatever image it came in.
//
// Blocks are filled in any order, a part at a time, so they are read back when they seem to be whole, and again if they
// weren't. Blocks that nobody writes to are zero, and cost nothing.
type content struct {
	target io.ReaderAt
	more   chan struct{} // has a value when more than contentLag blocks wait

	mu     sync.Mutex
	blocks map[int64]*contentState
	queue  []int64 // blocks to be hashed, oldest first
	full   bool    // there were too many
}

// contentState is a block that was written to.
type contentState struct {
	changes int
	waiting bool // it is in the queue
	hashed  bool
	sum     leaf
}

func newContent(t io.ReaderAt) *content {
	return &content{target: t, more: make(chan struct{}, 1), blocks: map[int64]*contentState{}}
}

// wrote takes note of n bytes that were written at offset. A nil content takes none.
func (c *content) wrote(offset int64, n int) {
	if c == nil || n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for b := offset / contentBlock; b <= (offset+int64(n)-1)/contentBlock && !c.full; b++ {
		c.touch(b)
	}
	if len(c.queue) > contentLag {
		select {
		case c.more <- struct{}{}:
		default: // somebody will look anyhow
		}
	}
}

// touch is called with mu held.
func (c *content) touch(b int64) {
	s := c.blocks[b]
	if s == nil {
		if len(c.blocks) == maxContentBlocks {
			c.full, c.blocks, c.queue = true, nil, nil
			return
		}
		s = &contentState{}
		c.blocks[b] = s
	}
	s.changes++
	s.hashed = false
	if !s.waiting {
		s.waiting = true
		c.queue = append(c.queue, b)
	}
}

// follow hashes blocks of a disk of size bytes behind those who write, until stop is closed.
func (c *content) follow(size int64, stop <-chan struct{}) error {
	buffer := make([]byte, contentBlock)
	for {
		select {
		case <-stop:
			return nil
		case <-c.more:
		}
		for b, ok := c.next(contentLag); ok; b, ok = c.next(contentLag) {
			if err := c.hash(b, size, buffer); err != nil {
				return err
			}
		}
	}
}

// next takes the oldest block from the queue where more than lag wait.
func (c *content) next(lag int) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) <= lag {
		return 0, false
	}
	b := c.queue[0]
	c.queue = c.queue[1:]
	return b, true
}

// hash reads and hashes a block. If it is written to meanwhile, it is in the queue again.
func (c *content) hash(b, size int64, buffer []byte) error {
	c.mu.Lock()
	s := c.blocks[b]
	if s == nil { // they were given up
		c.mu.Unlock()
		return nil
	}
	changes := s.changes
	s.waiting = false
	c.mu.Unlock()
	sum, err := readLeaf(c.target, b, size, buffer)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.changes == changes {
		s.sum, s.hashed = sum, true
	}
	return nil
}

// readLeaf reads a block of a disk of size bytes and answers its hash.
func readLeaf(t io.ReaderAt, b, size int64, buffer []byte) (leaf, error) {
	p := buffer[:min(contentBlock, size-b*contentBlock)]
	if n, err := t.ReadAt(p, b*contentBlock); n < len(p) {
		return leaf{}, fmt.Errorf("read what was written, %d bytes at offset %d of the disk: %w", len(p), b*contentBlock, noEOF(err))
	}
	return sha256.Sum256(p), nil
}

// finish hashes what is left, and answers the hash of a disk of size bytes; empty where there are too many blocks.
// Where everything says so, also blocks that nobody wrote to are read: an earlier attempt may have.
func (c *content) finish(ctx context.Context, size int64, everything bool, workers int) (string, error) {
	count := (size + contentBlock - 1) / contentBlock
	c.mu.Lock()
	for b := int64(0); everything && b < count && !c.full; b++ {
		if c.blocks[b] == nil && !c.hole(b) {
			c.touch(b)
		}
	}
	c.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error {
			buffer := make([]byte, contentBlock)
			for b, ok := c.next(0); ok; b, ok = c.next(0) {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := c.hash(b, size, buffer); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil || c.full {
		return "", err
	}
	root := sha256.New()
	zero := newZeroLeaves(size)
	for b := range count {
		sum := c.leaf(b, zero)
		root.Write(sum[:]) // a hash never answers an error
	}
	return contentPrefix + hex.EncodeToString(root.Sum(nil)), nil
}

// hole reports whether a block is known to be zero without being read.
func (c *content) hole(b int64) bool {
	holed, ok := c.target.(target.Holed)
	return ok && holed.Hole(b*contentBlock, contentBlock)
}

// leaf is the hash of a block, after finish.
func (c *content) leaf(b int64, zero zeroLeaves) leaf {
	if s := c.blocks[b]; s != nil {
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
	zeros := make([]byte, contentBlock)
	z := zeroLeaves{whole: sha256.Sum256(zeros), lastBlock: size / contentBlock}
	z.last = sha256.Sum256(zeros[:size%contentBlock])
	return z
}

func (z zeroLeaves) leaf(b int64) leaf {
	if b == z.lastBlock {
		return z.last
	}
	return z.whole
}

// verify reads a disk of size bytes back from its storage and compares each block with what was written.
func (c *content) verify(ctx context.Context, size int64, workers int) error {
	zero := newZeroLeaves(size)
	group, ctx := errgroup.WithContext(ctx)
	blocks := make(chan int64)
	group.Go(func() error {
		defer close(blocks)
		for b := range (size + contentBlock - 1) / contentBlock {
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
			buffer := make([]byte, contentBlock)
			for b := range blocks {
				sum := zero.leaf(b)
				if !c.hole(b) {
					var err error
					if sum, err = readLeaf(c.target, b, size, buffer); err != nil {
						return err
					}
				}
				if sum != c.leaf(b, zero) {
					return &target.Error{Reason: target.IO, Message: fmt.Sprintf("the disk doesn't hold what was written: the %d bytes at offset %d read back as other ones; its storage is not to be trusted", min(contentBlock, size-b*contentBlock), b*contentBlock)}
				}
			}
			return nil
		})
	}
	return group.Wait()
}
