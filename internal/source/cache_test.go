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
}

func (c *counted) ReadAt(p []byte, offset int64) (int, error) {
	c.reads++
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

func TestACacheDoesNotTakeATruncatedObjectForAGoodEnd(t *testing.T) {
	c := source.NewCache(bytes.NewReader(make([]byte, 100)), 1000)
	if n, err := c.ReadAt(make([]byte, 10), 500); n != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d, %v", n, err)
	}
}
