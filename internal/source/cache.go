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
	// cacheRun is how many are read at once at most.
	cacheRun = 16
)

// Cache is an io.ReaderAt that reads another one in blocks and remembers the last ones, for tables that are read a little
// at a time from a place that is far away. Where it is read in ascending order, it reads more and more blocks at once. It
// is safe for concurrent use, and reads the other one once at a time.
type Cache struct {
	r      io.ReaderAt
	length int64

	mu     sync.Mutex
	blocks map[int64][]byte
	order  []int64 // of the blocks, oldest first
	next   int64   // the block behind the last that was read
	run    int64   // how many were read at once
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
		last := min(c.length, offset+int64(len(p))) - 1
		b, err := c.block(at/cacheBlock, last/cacheBlock)
		if err != nil {
			return done, err
		}
		done += copy(p[done:], b[at%cacheBlock:])
	}
	return done, nil
}

// block answers a block, and reads it where it must, with those behind it up to last and maybe further. It is called
// with mu held.
func (c *Cache) block(number, last int64) ([]byte, error) {
	if b, ok := c.blocks[number]; ok {
		return b, nil
	}
	if number >= c.next && number-c.next <= c.run {
		c.run *= 2
	} else {
		c.run = 1
	}
	c.run = min(max(c.run, last-number+1), cacheRun)
	end := number + 1
	for ; end < number+c.run && end*cacheBlock < c.length; end++ {
		if _, ok := c.blocks[end]; ok {
			break
		}
	}
	c.next = end
	start := number * cacheBlock
	b := make([]byte, min(end*cacheBlock, c.length)-start)
	if n, err := c.r.ReadAt(b, start); n < len(b) {
		if err == io.EOF { //nolint:errorlint // it would look like a good end
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %d bytes at offset %d: %w", len(b), start, err)
	}
	for ; number < end; number++ {
		c.remember(number, b[number*cacheBlock-start:min((number+1)*cacheBlock-start, int64(len(b)))])
	}
	return c.blocks[start/cacheBlock], nil
}

// remember keeps a block, in place of the oldest.
func (c *Cache) remember(number int64, b []byte) {
	if len(c.order) == cacheBlocks {
		delete(c.blocks, c.order[0])
		c.order = c.order[1:]
	}
	c.blocks[number] = b
	c.order = append(c.order, number)
}
