package target

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// Memory is a disk in memory, the reference for the other targets. It begins with bytes that are not zero.
type Memory struct {
	mu        sync.Mutex
	disk      []byte
	committed bool
	written   int64
}

// NewMemory makes a disk of size bytes.
func NewMemory(size int64) *Memory {
	m := &Memory{disk: make([]byte, size)}
	for i := range m.disk {
		m.disk[i] = 0xa5
	}
	return m
}

// Size implements Target.
func (m *Memory) Size() int64 { return int64(len(m.disk)) }

// Clear implements Target.
func (m *Memory) Clear(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.disk)
	return ctx.Err()
}

// WriteAt implements Target.
func (m *Memory) WriteAt(p []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if offset < 0 || offset > m.Size()-int64(len(p)) {
		return 0, &Error{Reason: IO, Message: fmt.Sprintf("write %d bytes at offset %d of a disk of %d bytes", len(p), offset, m.Size())}
	}
	m.committed = false
	m.written += int64(len(p))
	return copy(m.disk[offset:], p), nil
}

// ReadAt implements Target.
func (m *Memory) ReadAt(p []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := copy(p, m.disk[min(max(offset, 0), m.Size()):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Sync implements Target.
func (m *Memory) Sync() error { return nil }

// Identity implements Target.
func (m *Memory) Identity() string { return fmt.Sprintf("memory at %p", m) }

// Commit implements Target.
func (m *Memory) Commit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.committed = true
	return nil
}

// Close implements Target.
func (m *Memory) Close() error { return nil }

// Bytes is the disk, and whether all of it was committed.
func (m *Memory) Bytes() (disk []byte, committed bool) { return m.disk, m.committed }

// Written is how many bytes were written.
func (m *Memory) Written() int64 { return m.written }
