package source

import (
	"fmt"
	"io"
	"sync"
)

const (
	// cacheBlock is the unit in which a Cache reads, in bytes: a table of most formats is one.
	cacheBlock = 64 << 10
	// cacheBlocks is how many of them are remembered.
	cacheBlocks = 64
)

// Cache is an io.ReaderAt that reads another one in blocks and remembers the last ones, for tables that are read a little
// at a time from a place that is far away. It is safe for concurrent use.
type Cache struct {
	r      io.ReaderAt
	length int64

	mu     sync.Mutex
	blocks map[int64][]byte
	order  []int64 // of the blocks, oldest first
}

// NewCache caches r, which is length bytes long.
func NewCache(r io.ReaderAt, length int64) *Cache {
	return &Cache{r: r, length: length, blocks: map[int64][]byte{}}
}

// ReadAt implements io.ReaderAt.
func (c *Cache) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read at offset %d: it must not be negative", offset)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	done := 0
	for done < len(p) {
		at := offset + int64(done)
		if at >= c.length {
			return done, io.EOF
		}
		b, err := c.block(at / cacheBlock)
		if err != nil {
			return done, err
		}
		done += copy(p[done:], b[at%cacheBlock:])
	}
	return done, nil
}

// block answers a block. It is called with mu held.
func (c *Cache) block(number int64) ([]byte, error) {
	if b, ok := c.blocks[number]; ok {
		return b, nil
	}
	var b []byte
	if len(c.order) == cacheBlocks {
		b = c.blocks[c.order[0]]
		delete(c.blocks, c.order[0])
		c.order = c.order[1:]
	}
	if cap(b) < cacheBlock {
		b = make([]byte, cacheBlock)
	}
	start := number * cacheBlock
	b = b[:min(cacheBlock, c.length-start)] // the last one is shorter
	if n, err := c.r.ReadAt(b, start); n < len(b) {
		if err == io.EOF { //nolint:errorlint // it would look like a good end
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %d bytes at offset %d: %w", len(b), start, err)
	}
	c.blocks[number] = b
	c.order = append(c.order, number)
	return b, nil
}
