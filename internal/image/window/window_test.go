package window

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
)

// content is bytes that are different everywhere.
func content(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	if _, err := r.Read(b); err != nil {
		panic(err)
	}
	return b
}

func requireBytes(t *testing.T, w *Window, whole []byte, offset int64, n int) {
	t.Helper()
	got, err := w.Bytes(offset, n)
	if err != nil {
		t.Fatalf("%d bytes at %d: %v", n, offset, err)
	}
	size := int64(len(whole))
	if !bytes.Equal(got, whole[min(offset, size):min(offset+int64(n), size)]) {
		t.Fatalf("%d bytes at %d: %d other bytes", n, offset, len(got))
	}
}

func TestAWindowAnswersWhatItHolds(t *testing.T) {
	whole := content(3*chunkBytes + 1000)
	in := image.Input{Stream: iotest.HalfReader(bytes.NewReader(whole))}
	w := New(context.Background(), in, image.VMDK, 0)
	requireBytes(t, w, whole, 5000, 100)
	requireBytes(t, w, whole, 2*chunkBytes-10, 20) // over an edge
	requireBytes(t, w, whole, 0, 3*chunkBytes)     // back
	w.Forget(chunkBytes + 5)
	requireBytes(t, w, whole, chunkBytes+5, chunkBytes)
	requireBytes(t, w, whole, 3*chunkBytes, 2000) // the end
	requireBytes(t, w, whole, 4*chunkBytes, 5)    // behind it
	if ended, err := w.Ended(int64(len(whole))); !ended || err != nil {
		t.Errorf("ended %v, %v", ended, err)
	}
	if ended, err := w.Ended(int64(len(whole)) - 1); ended || err != nil {
		t.Errorf("a byte before: ended %v, %v", ended, err)
	}
}

func TestWhatIsGivenUpIsReadAgainOrRefused(t *testing.T) {
	whole := content(10 * chunkBytes)
	limits := image.Limits{MemoryBytes: 4 * chunkBytes} // of which half is held
	type step struct {
		forget, offset int64
	}
	tests := map[string]struct {
		front int64
		step  step
		again bool // or refused
	}{
		"within the limit":                       {0, step{0, 2 * chunkBytes}, false},
		"a byte above it":                        {0, step{0, 2*chunkBytes + 1}, true},
		"above it, and only metadata left":       {6 * chunkBytes, step{0, 8 * chunkBytes}, false},
		"above it, and more than metadata left":  {6*chunkBytes - 1, step{0, 8 * chunkBytes}, true},
		"skipped":                                {0, step{7 * chunkBytes, 9 * chunkBytes}, false},
		"before what was skipped":                {0, step{7 * chunkBytes, 7*chunkBytes - 1}, true},
		"behind the end, as far as anyone knows": {0, step{0, 20 * chunkBytes}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := image.Input{Stream: bytes.NewReader(whole), Limits: limits}
			w := New(context.Background(), in, image.VMDK, test.front)
			w.Forget(test.step.forget)
			_, err := w.Bytes(test.step.offset, 10)
			var refused *image.Refused
			if isRefused := errors.As(err, &refused) && refused.Reason == image.NeedsRandomAccess; isRefused != test.again || !isRefused && err != nil {
				t.Errorf("without ranges: %v", err)
			}
			random := &counting{r: bytes.NewReader(whole)}
			in.Stream, in.Random = bytes.NewReader(whole), random
			w = New(context.Background(), in, image.VMDK, test.front)
			w.Forget(test.step.forget)
			requireBytes(t, w, whole, test.step.offset, 10)
			requireBytes(t, w, whole, test.step.offset, 10)
			if test.front == 0 {
				requireBytes(t, w, whole, test.step.forget, 10) // what is held stays
			}
			if diff := cmp.Diff(map[bool]int{true: 1}[test.again], random.reads); diff != "" && test.step.offset < int64(len(whole)) {
				t.Errorf("reads: %s", diff)
			}
		})
	}
}

// counting counts reads.
type counting struct {
	r     io.ReaderAt
	reads int
}

func (c *counting) ReadAt(p []byte, offset int64) (int, error) {
	c.reads++
	return c.r.ReadAt(p, offset)
}

func TestALongStreamTakesLittleMemory(t *testing.T) {
	const size = 1 << 30
	w := New(context.Background(), image.Input{Stream: io.LimitReader(zeros{}, size)}, image.VMDK, 0)
	for offset := int64(0); offset < size; offset += 10 << 20 {
		w.Forget(offset)
		if b, err := w.Bytes(offset, 4<<20); err != nil || len(b) < 4<<20 {
			t.Fatalf("at %d: %d bytes, %v", offset, len(b), err)
		}
	}
	if n := len(w.chunks) + len(w.spare); n > 40 {
		t.Errorf("%d chunks", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFailuresAreNoRefusals(t *testing.T) {
	broken := errors.New("broken")
	w := New(context.Background(), image.Input{Stream: iotest.ErrReader(broken)}, image.VMDK, 0)
	if _, err := w.Bytes(0, 1); !errors.Is(err, broken) {
		t.Errorf("the stream: %v", err)
	}
	in := image.Input{Stream: bytes.NewReader(nil), Random: failing{broken}, Limits: image.Limits{MemoryBytes: 2}}
	if _, err := New(context.Background(), in, image.VMDK, 0).Bytes(100, 1); !errors.Is(err, broken) {
		t.Errorf("reading again: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New(ctx, image.Input{Stream: zeros{}}, image.VMDK, 0).Bytes(0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that is done: %v", err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestRunsAreGatheredWithinTheirMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	scattered := r.Perm(1000)
	type block struct {
		At    uint32
		Block int64
	}
	for name, test := range map[string]struct {
		stride uint32
		at     func(i int) uint32
		limit  int64 // runs
		fits   bool
	}{
		"neighbours":                        {8, func(i int) uint32 { return uint32(i * 8) }, 16, true},
		"neighbours that aren't joined":     {0, func(i int) uint32 { return uint32(i * 8) }, 16, false},
		"scattered":                         {8, func(i int) uint32 { return uint32(scattered[i] * 8) }, 16, false},
		"scattered, with room":              {8, func(i int) uint32 { return uint32(scattered[i] * 8) }, 1000, true},
		"backwards":                         {8, func(i int) uint32 { return uint32((1000 - i) * 8) }, 50, false},
		"runs of seven that lie crosswise":  {8, func(i int) uint32 { return uint32(scattered[i/7]*56 + i%7*8) }, 16, false},
		"a few blocks in each place":        {8, func(i int) uint32 { return uint32(scattered[i] / 4) }, 100, false},
		"long runs that overlap each other": {8, func(i int) uint32 { return uint32(i%40*8 + i/40*160) }, 16, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[block]int{}
			for i := range 1000 {
				want[block{test.at(i), int64(i)}]++
			}
			limits := image.Limits{MemoryBytes: 2 * test.limit * runCost}
			for _, canForget := range []bool{true, false} {
				runs := NewRuns(image.VMDK, test.stride, limits, canForget)
				got := map[block]int{}
				lowest := int64(0) // where the next run can lie
				err := runs.Each(func() error {
					for i := range 1000 {
						if err := runs.Add(test.at(i), int64(i)); err != nil {
							return err
						}
					}
					return nil
				}, func(run Run, next int64) error {
					if int64(run.At) < lowest || next < int64(run.At) {
						t.Fatalf("%d comes where %d was said to, and %d next", run.At, lowest, next)
					}
					lowest = next
					if int64(len(runs.list)) > test.limit {
						t.Fatalf("%d runs", len(runs.list))
					}
					for i := range run.Count {
						got[block{run.At + i*test.stride, run.Block + int64(i)}]++
					}
					return nil
				})
				var refused *image.Refused
				if !canForget && !test.fits {
					if !errors.As(err, &refused) || refused.Reason != image.NeedsRandomAccess {
						t.Errorf("got %v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	t.Run("in one place", func(t *testing.T) {
		runs := NewRuns(image.VMDK, 0, image.Limits{MemoryBytes: 1}, true)
		err := runs.Each(func() error {
			for i := range int64(100) {
				if err := runs.Add(7, i); err != nil {
					return err
				}
			}
			return nil
		}, func(Run, int64) error { return nil })
		var refused *image.Refused
		if !errors.As(err, &refused) || refused.Reason != image.CorruptImage {
			t.Errorf("got %v", err)
		}
	})
}
