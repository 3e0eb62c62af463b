// Package sourcetest is the suite that every source.Source runs, with a source in memory as the reference, and a web
// server that misbehaves as it is told.
package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"vmdisk.io/vmdisk/internal/source"
)

// Suite runs the contract of source.Source against the sources that open makes, each over the given content.
func Suite(t *testing.T, open func(t *testing.T, content []byte) source.Source) {
	content := make([]byte, 300_001)
	for i := range content {
		content[i] = byte(i * i >> 3)
	}
	start := func(t *testing.T, content []byte) (source.Source, source.Description) {
		t.Helper()
		s := open(t, content)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		d, err := s.Describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Name == "" {
			t.Error("the object has no name")
		}
		if d.Length != source.Unknown && d.Length != int64(len(content)) {
			t.Errorf("its length is %d, want %d", d.Length, len(content))
		}
		return s, d
	}
	t.Run("the whole object is read", func(t *testing.T) {
		s, _ := start(t, content)
		requireRead(t, s, 0, -1, content)
	})
	t.Run("an empty object is read", func(t *testing.T) {
		s, _ := start(t, nil)
		requireRead(t, s, 0, -1, nil)
	})
	t.Run("a description is what it was", func(t *testing.T) {
		_, first := start(t, content)
		_, second := start(t, content)
		if first.Length != second.Length || first.Ranges != second.Ranges {
			t.Errorf("%+v, then %+v", first, second)
		}
	})
	t.Run("where ranges are promised, any part is read any number of times", func(t *testing.T) {
		s, d := start(t, content)
		if !d.Ranges {
			return
		}
		n := int64(len(content))
		for _, part := range [][2]int64{{0, -1}, {0, -1}, {1, -1}, {n - 1, -1}, {n, -1}, {0, 1}, {1000, 2000}, {n - 5, 100}, {7, 0}} {
			end := n
			if part[1] >= 0 {
				end = min(n, part[0]+part[1])
			}
			requireRead(t, s, part[0], part[1], content[part[0]:end])
		}
		p := make([]byte, 100)
		got, err := source.ReaderAt{Context: t.Context(), Source: s}.ReadAt(p, n-50)
		if got != 50 || !errors.Is(err, io.EOF) {
			t.Errorf("read across the end: %d, %v", got, err)
		}
	})
	t.Run("a context that is done ends a read with its error", func(t *testing.T) {
		s := open(t, content)
		defer s.Close() //nolint:errcheck // the error that counts is below
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := s.Describe(ctx); err != nil {
			t.Fatal(err)
		}
		r, err := s.Open(ctx, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.Copy(io.Discard, r); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err) // everything may have arrived before
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

func requireRead(t *testing.T, s source.Source, offset, length int64, want []byte) {
	t.Helper()
	r, err := s.Open(t.Context(), offset, length)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read from %d: %v", offset, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes from %d, which are not the right %d", len(got), offset, len(want))
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Memory is a source in memory, the reference for the others.
type Memory struct {
	Content []byte
	// Forward makes it a source without ranges, and of unknown length.
	Forward bool
}

// Describe implements source.Source.
func (m *Memory) Describe(ctx context.Context) (source.Description, error) {
	d := source.Description{Name: "memory", Length: int64(len(m.Content)), Ranges: true, Validator: "1"}
	if m.Forward {
		d.Length, d.Ranges = source.Unknown, false
	}
	return d, ctx.Err()
}

// Open implements source.Source.
func (m *Memory) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	part := m.Content[min(offset, int64(len(m.Content))):]
	if length >= 0 {
		part = part[:min(length, int64(len(part)))]
	}
	return io.NopCloser(&memoryReader{ctx, bytes.NewReader(part)}), ctx.Err()
}

// Close implements source.Source.
func (m *Memory) Close() error { return nil }

type memoryReader struct {
	ctx context.Context // of the Open that made it
	r   io.Reader
}

func (r *memoryReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
