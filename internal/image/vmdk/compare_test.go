package vmdk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/codec"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// writes are qemu-io commands that write a few sectors each, at places that don't change from run to run.
func writes(n int) []string {
	r := rand.New(rand.NewPCG(3, 4))
	var args []string
	for range n {
		length := 512 * (1 + r.Int64N(40))
		offset := r.Int64N((imagetest.DiskBytes-length)/512) * 512
		args = append(args, "-c", fmt.Sprintf("write -P %d %d %d", 1+r.IntN(255), offset, length))
	}
	return args
}

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	tests := map[string]struct {
		options string
		create  bool // an empty image; otherwise a disk is converted
		io      []string
	}{
		"monolithicSparse":                     {options: "subformat=monolithicSparse"},
		"streamOptimized":                      {options: "subformat=streamOptimized"},
		"version 6":                            {options: "subformat=monolithicSparse,compat6"},
		"zero grains":                          {options: "subformat=monolithicSparse,zeroed_grain=on", io: []string{"-c", "write -z 0 1M", "-c", "write -z 4M 300k"}},
		"written at random":                    {options: "subformat=monolithicSparse", create: true, io: writes(300)},
		"written at random over what is there": {options: "subformat=monolithicSparse", io: writes(300)},
		"zero grains, written at random":       {options: "subformat=monolithicSparse,zeroed_grain=on", create: true, io: append(writes(100), "-c", "write -z 1M 3M", "-c", "write -P 3 2M 70k")},
		"empty":                                {options: "subformat=monolithicSparse", create: true},
		"empty, streamOptimized":               {options: "subformat=streamOptimized", create: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "image.vmdk")
			if test.create {
				imagetest.Run(t, "qemu-img", "create", "-q", "-f", "vmdk", "-o", test.options, path, fmt.Sprint(imagetest.DiskBytes))
			} else {
				raw := filepath.Join(dir, "disk.raw")
				if err := os.WriteFile(raw, imagetest.Disk(), 0o600); err != nil {
					t.Fatal(err)
				}
				imagetest.Run(t, "qemu-img", "convert", "-q", "-f", "raw", "-O", "vmdk", "-o", test.options, raw, path)
			}
			if test.io != nil {
				imagetest.Run(t, "qemu-io", append([]string{"-f", "vmdk", path}, test.io...)...)
			}
			compare(t, path)
		})
	}
}

// compare reads an image in every way and compares the disk with what qemu-img reads.
func compare(t *testing.T, path string) {
	t.Helper()
	raw := path + ".raw"
	imagetest.Run(t, "qemu-img", "convert", "-q", "-f", "vmdk", "-O", "raw", path, raw)
	want, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	compareOpen(t, file, want)
	for name, w := range waysForward() {
		got, err := decodeForward(file, w)
		var refused *image.Refused
		if w.mayRefuse && errors.As(err, &refused) && (refused.Reason == image.NeedsRandomAccess || refused.Reason == image.TooLarge) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		requireEqual(t, got, want)
	}
}

// TestReadsStreamsAsVMwareWritesThem compares with qemu-img on images that QEMU reads and doesn't write.
func TestReadsStreamsAsVMwareWritesThem(t *testing.T) {
	disk := imagetest.Disk()[:4<<20+3*sector]
	clear(disk[1<<20 : 2<<20])
	for name, s := range map[string]shape{
		"tables behind their grains":           {},
		"all tables at the end":                {tablesLast: true},
		"all tables behind one marker":         {tablesLast: true, twoInOne: true},
		"zeros before the first grain":         {padFirst: true},
		"zero grains":                          {zeroGrains: true},
		"tables without a grain":               {emptyTable: true},
		"two directories":                      {redundant: true},
		"a last grain that ends with the disk": {cutLast: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stream.vmdk")
			if err := os.WriteFile(path, stream(disk, s), 0o600); err != nil {
				t.Fatal(err)
			}
			compare(t, path)
			got, err := decodeForward(stream(disk, s), way{})
			if err != nil {
				t.Fatal(err)
			}
			requireEqual(t, got, disk)
		})
	}
}

// compareOpen reads an image as a whole, at random places and by its extents.
func compareOpen(t *testing.T, file, want []byte) {
	t.Helper()
	img, err := Open(bytes.NewReader(file), int64(len(file)), image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, img.Size())
	if n, err := img.ReadAt(got, 0); err != nil {
		t.Fatalf("read the disk: %d bytes, %v", n, err)
	}
	requireEqual(t, got, want)
	r := rand.New(rand.NewPCG(8, 9))
	for range 200 {
		offset := r.Int64N(img.Size())
		part := make([]byte, r.Int64N(1<<18))
		n, err := img.ReadAt(part, offset)
		if err != nil && (!errors.Is(err, io.EOF) || offset+int64(len(part)) <= img.Size()) {
			t.Fatalf("read %d bytes at %d: %v", len(part), offset, err)
		}
		requireEqual(t, part[:n], want[offset:min(offset+int64(len(part)), img.Size())])
	}
	offset := int64(0)
	for {
		extent, err := img.Next(offset)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || extent.Start != offset || extent.Len <= 0 {
			t.Fatalf("extent at %d: %+v, %v", offset, extent, err)
		}
		offset += extent.Len
		if extent.Zero && len(bytes.Trim(want[extent.Start:offset], "\x00")) > 0 {
			t.Fatalf("extent %+v is not zero", extent)
		}
	}
	if offset != img.Size() {
		t.Fatalf("the extents end at %d, the disk at %d", offset, img.Size())
	}
}

// way is a way of decoding forward.
type way struct {
	random    bool
	memory    int64
	disk      int64 // the largest that is accepted
	forget    bool  // what was decoded, for large disks
	mayRefuse bool  // what needs random access or memory
}

func waysForward() map[string]way {
	return map[string]way{
		"forward":                                  {},
		"forward with ranges":                      {random: true},
		"forward with little memory and ranges":    {random: true, memory: 64 << 10},
		"forward with no memory and ranges":        {random: true, memory: 1, mayRefuse: true},
		"forward with little memory and no ranges": {memory: 64 << 10, mayRefuse: true},
	}
}

// decodeForward decodes an image in one forward pass into memory.
func decodeForward(file []byte, w way) ([]byte, error) {
	limits := image.Limits{DiskBytes: cmp.Or(w.disk, 1<<28), MemoryBytes: w.memory}
	f, err := Begin(file[:min(len(file), image.HeadBytes)], limits)
	if err != nil {
		return nil, err
	}
	in := image.Input{Stream: bytes.NewReader(file), Limits: limits}
	if w.random {
		in.Random = bytes.NewReader(file)
	}
	var decoder codec.Decoder
	if w.forget {
		return nil, f.Run(context.Background(), in, func(p image.Piece, stored []byte) error {
			if err := decoder.Decode(make([]byte, p.Full), p.Encoding, stored); err != nil {
				return image.Refuse(image.CorruptImage, "piece at %d: %v", p.Offset, err)
			}
			return nil
		})
	}
	disk := make([]byte, f.Size())
	given := make([]bool, (f.Size()+511)/512)
	err = f.Run(context.Background(), in, func(p image.Piece, stored []byte) error {
		for i := p.Offset / 512; i*512 < p.Offset+int64(p.Len); i++ {
			if given[i] {
				panic("a part of the disk was given twice")
			}
			given[i] = true
		}
		full := make([]byte, p.Full)
		if err := decoder.Decode(full, p.Encoding, stored); err != nil {
			return image.Refuse(image.CorruptImage, "piece at %d: %v", p.Offset, err)
		}
		copy(disk[p.Offset:p.Offset+int64(p.Len)], full)
		return nil
	})
	return disk, err
}

func requireEqual(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("byte %d is %#x, want %#x", i, got[i], want[i])
		}
	}
}
