package qcow2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// sparseDisk is a disk that knows where it has data, and isn't held as a whole.
type sparseDisk struct {
	size  int64
	parts []diskPart // in their order
}

type diskPart struct {
	offset int64
	data   []byte
}

func (d *sparseDisk) Size() int64          { return d.size }
func (d *sparseDisk) Format() image.Format { return image.Raw }

func (d *sparseDisk) Next(offset int64) (image.Extent, error) {
	if offset >= d.size {
		return image.Extent{}, io.EOF
	}
	for _, p := range d.parts {
		end := p.offset + int64(len(p.data))
		switch {
		case offset < p.offset:
			return image.Extent{Start: offset, Len: p.offset - offset, Zero: true}, nil
		case offset < end:
			return image.Extent{Start: offset, Len: end - offset}, nil
		}
	}
	return image.Extent{Start: offset, Len: d.size - offset, Zero: true}, nil
}

func (d *sparseDisk) ReadAt(p []byte, offset int64) (int, error) {
	clear(p)
	for _, part := range d.parts {
		if from := part.offset - offset; from >= 0 && from < int64(len(p)) {
			copy(p[from:], part.data)
		} else if from < 0 && -from < int64(len(part.data)) {
			copy(p, part.data[-from:])
		}
	}
	return len(p), nil
}

// save makes the disk a sparse file.
func (d *sparseDisk) save(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = f.Truncate(d.size)
	}
	for _, p := range d.parts {
		if err == nil {
			_, err = f.WriteAt(p.data, p.offset)
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// randomDisk has parts in random places, of a few kinds, about half of them on no boundary of a cluster.
func randomDisk(r *rand.Rand, size int64, parts, most int) *sparseDisk {
	d := &sparseDisk{size: size}
	all := imagetest.Disk()
	end := int64(0)
	for i := range parts {
		offset := end + r.Int64N(max(1, (size-end)/int64(parts-i)))/512*512
		if r.IntN(2) == 0 {
			offset = min(size, (offset+0xffff)&^0xffff)
		}
		n := min(512*int64(1+r.IntN(most/512)), size-offset)
		if n <= 0 {
			break
		}
		from := r.IntN(len(all) - int(n))
		d.parts = append(d.parts, diskPart{offset, all[from : from+int(n)]})
		end = offset + n
	}
	return d
}

// written writes a disk in every way, requires the same bytes from each, and answers the file's path.
func written(t *testing.T, disk image.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.qcow2")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	length, err := newWriter(t, disk, 2).WriteFile(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(content)) != length {
		t.Errorf("the file has %d bytes, and the writer says %d", len(content), length)
	}
	for _, workers := range []int{1, 3} {
		var stream bytes.Buffer
		w := newWriter(t, disk, workers)
		if _, err := w.WriteStream(t.Context(), &stream); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stream.Bytes(), content) {
			t.Errorf("the stream of %d workers has other bytes than the file", workers)
		}
	}
	return path
}

func newWriter(t *testing.T, disk image.Image, workers int) *Writer {
	t.Helper()
	w, err := NewWriter(disk, WriterOptions{Workers: workers})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// requireQEMU requires that QEMU finds nothing wrong with an image, and the disk in it.
func requireQEMU(t *testing.T, path string, disk *sparseDisk) {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "disk.raw")
	disk.save(t, raw)
	imagetest.Run(t, "qemu-img", "check", "-q", "-f", "qcow2", path)
	imagetest.Run(t, "qemu-img", "compare", "-q", "-f", "raw", "-F", "qcow2", raw, path)
}

func TestWhatIsWrittenIsReadByQEMUAndByUs(t *testing.T) {
	sizes := []int64{0, 512, 64<<10 - 512, 64 << 10, 64<<10 + 512, 1 << 20, 3<<20 + 1536}
	for seed := range uint64(30) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 8))
			size := r.Int64N(8<<11) * 512
			if int(seed) < len(sizes) {
				size = sizes[seed]
			}
			disk := randomDisk(r, size, 1+r.IntN(12), 1<<20)
			path := written(t, disk)
			requireQEMU(t, path, disk)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			whole := make([]byte, size)
			if _, err := disk.ReadAt(whole, 0); err != nil {
				t.Fatal(err)
			}
			ways := waysForward()
			ways["forward with little memory and no ranges"] = imagetest.Way{Begin: begin(defaultRoom()), Limits: image.Limits{MemoryBytes: 16 << 10}}
			imagetest.RequireReads(t, content, whole, Open, ways)
		})
	}
}

// TestALargeDiskIsWrittenWithFewTables has disks with tables far apart, some with larger clusters, where our own file has a hundred bytes for
// each part.
func TestALargeDiskIsWrittenWithFewTables(t *testing.T) {
	tests := map[string]struct {
		size        int64
		clusterBits uint
	}{
		"600 GiB":             {600<<30 + 512, 16},
		"a little over 1 TiB": {1<<40 + 512, 17},
		"64 TiB":              {64 << 40, 21},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(5, 6))
			disk := randomDisk(r, test.size, 20, 300<<10)
			tail := bytes.Repeat([]byte("end."), 128)
			disk.parts = append(disk.parts, diskPart{test.size - 512, tail})
			w := newWriter(t, disk, 2)
			if w.layout.clusterBits != test.clusterBits {
				t.Errorf("its clusters have 2^%d bytes", w.layout.clusterBits)
			}
			path := filepath.Join(t.TempDir(), "disk.qcow2")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := w.WriteFile(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			imagetest.Run(t, "qemu-img", "check", "-q", "-f", "qcow2", path)
			requireParts(t, f, disk)
		})
	}
}

// requireParts reads the parts of a disk, and what is around them, from an image.
func requireParts(t *testing.T, f *os.File, disk *sparseDisk) {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(f, info.Size(), image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Size() != disk.size {
		t.Errorf("the disk has %d bytes, not %d", v.Size(), disk.size)
	}
	for _, p := range disk.parts {
		from := max(0, p.offset-4096)
		got := make([]byte, min(int64(len(p.data))+8192, disk.size-from))
		want := make([]byte, len(got))
		if _, err := disk.ReadAt(want, from); err != nil {
			t.Fatal(err)
		}
		if _, err := v.ReadAt(got, from); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("the part at %d reads as something else", p.offset)
		}
	}
}

// TestARefcountIsNeverTooLarge: as many of the smallest stored clusters as have a part in one cluster.
func TestARefcountIsNeverTooLarge(t *testing.T) {
	if most := 1<<maxClusterBits/storedUnit + 1; most > 1<<16-1 {
		t.Errorf("a refcount of %d takes more than 16 bits", most)
	}
}

// changing is a disk that is another one from the n-th look at its beginning on.
type changing struct {
	*sparseDisk
	n     int
	after *sparseDisk
}

func (c *changing) Next(offset int64) (image.Extent, error) {
	if offset == 0 {
		if c.n--; c.n == 0 {
			c.sparseDisk = c.after
		}
	}
	return c.sparseDisk.Next(offset)
}

func TestADiskThatChangesWhileItIsStreamedIsNoImage(t *testing.T) {
	before := &sparseDisk{size: 4 << 20, parts: []diskPart{{0, imagetest.Disk()[:2<<20]}}}
	for name, after := range map[string]*sparseDisk{
		"other content": {size: 4 << 20, parts: []diskPart{{0, imagetest.Disk()[1<<20 : 3<<20]}}},
		"less of it":    {size: 4 << 20, parts: []diskPart{{0, imagetest.Disk()[:1<<20]}}},
		"more of it":    {size: 4 << 20, parts: []diskPart{{0, imagetest.Disk()[:3<<20]}}},
		"nothing":       {size: 4 << 20},
	} {
		w := newWriter(t, &changing{before, 3, after}, 1) // NewWriter, the first and the second pass
		if _, err := w.WriteStream(t.Context(), io.Discard); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWriterThatFailsAndOneThatIsStoppedEnd(t *testing.T) {
	disk := &sparseDisk{size: 9 << 20, parts: []diskPart{{0, imagetest.Disk()[:9<<20]}}}
	full := errors.New("full")
	for _, after := range []int{0, 1, 3} {
		if _, err := newWriter(t, disk, 2).WriteStream(t.Context(), &failing{after, full}); !errors.Is(err, full) {
			t.Errorf("after %d writes: %v", after, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newWriter(t, disk, 2).WriteStream(ctx, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := newWriter(t, unreadable{disk, full}, 2).WriteStream(t.Context(), io.Discard); !errors.Is(err, full) {
		t.Error(err)
	}
}

// failing is a writer that fails after n writes.
type failing struct {
	n   int
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// unreadable is a disk that can't be read.
type unreadable struct {
	*sparseDisk
	err error
}

func (u unreadable) ReadAt([]byte, int64) (int, error) { return 0, u.err }
