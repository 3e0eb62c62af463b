package vmdk

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
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
	img, err := Open(bytes.NewReader(file), int64(len(file)), image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	imagetest.RequireDisk(t, img, want)
	for name, w := range waysForward() {
		got, err := decodeForward(file, w)
		var refused *image.Refused
		if w.mayRefuse && errors.As(err, &refused) && (refused.Reason == image.NeedsRandomAccess || refused.Reason == image.TooLarge) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		imagetest.RequireEqual(t, got, want)
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
			imagetest.RequireEqual(t, got, disk)
		})
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
	if w.forget {
		return nil, imagetest.DecodeAndForget(f, in)
	}
	return imagetest.Decode(f, in)
}
