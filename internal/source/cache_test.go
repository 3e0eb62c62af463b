package source_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"vmdisk.io/vmdisk/internal/source"
)

// counted counts the reads through it.
type counted struct {
	*bytes.Reader
	reads int
	bytes int
}

func (c *counted) ReadAt(p []byte, offset int64) (int, error) {
	c.reads++
	c.bytes += len(p)
	return c.Reader.ReadAt(p, offset)
}

func TestACacheAnswersWhatIsThere(t *testing.T) {
	content := make([]byte, 10<<20+123)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	c := source.NewCache(bytes.NewReader(content), int64(len(content)))
	for range 2000 {
		offset := r.Int64N(int64(len(content)) + 10)
		p := make([]byte, r.Int64N(200_000))
		n, err := c.ReadAt(p, offset)
		want := content[min(offset, int64(len(content))):min(offset+int64(len(p)), int64(len(content)))]
		if !bytes.Equal(p[:n], want) || n < len(p) && !errors.Is(err, io.EOF) || n == len(p) && err != nil {
			t.Fatalf("%d bytes at %d: %d, %v", len(p), offset, n, err)
		}
	}
}

func TestACacheReadsATableOnce(t *testing.T) {
	inner := &counted{Reader: bytes.NewReader(make([]byte, 1<<20))}
	c := source.NewCache(inner, 1<<20)
	for offset := int64(0); offset < 128<<10; offset += 8 {
		if _, err := c.ReadAt(make([]byte, 8), offset); err != nil {
			t.Fatal(err)
		}
	}
	if inner.reads != 2 {
		t.Errorf("%d reads", inner.reads)
	}
}

func TestACacheReadsMoreAtOnceWhereItIsReadInOrder(t *testing.T) {
	const length = 16 << 20
	tests := map[string]struct {
		first, stride int64
		reads, bytes  int // at most
	}{
		"several tables of each block":           {0, 16 << 10, 20, length},
		"one table of each block":                {0, 64 << 10, 20, length},
		"with gaps that are small":               {0, 100 << 10, 20, length},
		"but not where the tables are far apart": {0, 3 << 20, 6, 6 * 64 << 10},
		"nor backwards":                          {length - 512, -64 << 10, 256, length},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inner := &counted{Reader: bytes.NewReader(make([]byte, length))}
			c := source.NewCache(inner, length)
			for at := test.first; at >= 0 && at < length; at += test.stride {
				if _, err := c.ReadAt(make([]byte, 512), at); err != nil {
					t.Fatal(err)
				}
			}
			if inner.reads > test.reads || inner.bytes > test.bytes {
				t.Errorf("%d bytes in %d reads, want at most %d in %d", inner.bytes, inner.reads, test.bytes, test.reads)
			}
		})
	}
}

func TestACacheReadsALargePartInFewReads(t *testing.T) {
	inner := &counted{Reader: bytes.NewReader(make([]byte, 4<<20))}
	if _, err := source.NewCache(inner, 4<<20).ReadAt(make([]byte, 2<<20), 100); err != nil {
		t.Fatal(err)
	}
	if inner.reads > 3 {
		t.Errorf("%d reads", inner.reads)
	}
}

func TestACacheDoesNotTakeATruncatedObjectForAGoodEnd(t *testing.T) {
	c := source.NewCache(bytes.NewReader(make([]byte, 100)), 1000)
	if n, err := c.ReadAt(make([]byte, 10), 500); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d, %v", n, err)
	}
}
