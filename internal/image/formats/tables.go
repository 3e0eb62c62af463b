package formats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"vmdisk.io/vmdisk/internal/image"
)

// minMemory is the least memory that a forward pass is tried with, in bytes.
const minMemory = 1 << 20

// Tables remembers which parts of an image are read through it. Once the image has been opened and mapped through it, and
// nothing else was read, those are its header and its tables.
type Tables struct {
	r io.ReaderAt

	mu    sync.Mutex
	parts []part
}

// part is a run of the image.
type part struct{ offset, end int64 }

// NewTables answers the Tables of the image that r reads.
func NewTables(r io.ReaderAt) *Tables { return &Tables{r: r} }

// ReadAt implements io.ReaderAt.
func (t *Tables) ReadAt(p []byte, offset int64) (int, error) {
	n, err := t.r.ReadAt(p, offset)
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := len(t.parts) - 1; last >= 0 && t.parts[last].offset <= offset && offset <= t.parts[last].end {
		t.parts[last].end = max(t.parts[last].end, offset+int64(n))
	} else if n > 0 {
		t.parts = append(t.parts, part{offset, offset + int64(n)})
	}
	return n, err
}

// ForwardMemory answers how much memory (image.Limits.MemoryBytes) one forward pass needs to decode the image that begins
// with head: the least power of two, at least 1 MiB and at most limits.MemoryBytes. It answers false where that isn't enough,
// so that the image must be read at several places. It lets the pass run over the tables, with zeros in place of the data.
func (t *Tables) ForwardMemory(ctx context.Context, head []byte, length int64, limits image.Limits) (int64, bool, error) {
	parts := t.sorted()
	most := limits.WithDefaults().MemoryBytes
	for limits.MemoryBytes = minMemory; limits.MemoryBytes <= most; limits.MemoryBytes *= 2 {
		f, err := Begin(Beginning{Head: head, Length: length}, limits)
		if err != nil {
			return 0, false, err
		}
		in := image.Input{Stream: &tablesOnly{r: t.r, parts: parts}, Limits: limits}
		err = f.Run(ctx, in, func(image.Piece, []byte) error { return nil })
		var refused *image.Refused
		if err != nil && !errors.As(err, &refused) {
			return 0, false, err
		}
		// Any other refusal is of the zeros that are no data, or of the end behind the last table.
		if err == nil || refused.Reason != image.NeedsRandomAccess {
			return limits.MemoryBytes, true, nil
		}
	}
	return 0, false, nil
}

// sorted is the parts in the image's order, joined.
func (t *Tables) sorted() []part {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.parts, func(a, b part) int { return cmp.Compare(a.offset, b.offset) })
	var joined []part
	for _, p := range t.parts {
		if n := len(joined); n > 0 && p.offset <= joined[n-1].end {
			joined[n-1].end = max(joined[n-1].end, p.end)
			continue
		}
		joined = append(joined, p)
	}
	t.parts = joined
	return slices.Clone(joined)
}

// tablesOnly is the image as a stream, up to the end of its last table, with zeros between the tables.
type tablesOnly struct {
	r     io.ReaderAt
	parts []part
	at    int64
}

// Read implements io.Reader.
func (s *tablesOnly) Read(p []byte) (int, error) {
	for len(s.parts) > 0 && s.parts[0].end <= s.at {
		s.parts = s.parts[1:]
	}
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	next := s.parts[0]
	if s.at < next.offset {
		n := int(min(int64(len(p)), next.offset-s.at))
		clear(p[:n])
		s.at += int64(n)
		return n, nil
	}
	n := int(min(int64(len(p)), next.end-s.at))
	got, err := s.r.ReadAt(p[:n], s.at)
	if got < n {
		return got, fmt.Errorf("read %d bytes at offset %d of the image again: %w", n, s.at, err)
	}
	s.at += int64(n)
	return n, nil
}
