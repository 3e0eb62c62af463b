package vhd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// recipes are images of every kind that QEMU makes.
func recipes() map[string]imagetest.Recipe {
	scattered := imagetest.RandomWrites(60)
	return map[string]imagetest.Recipe{
		"dynamic":                       {},
		"dynamic, of exactly its size":  {Options: "force_size=on"},
		"dynamic, empty":                {Empty: true},
		"dynamic, written at random":    {Empty: true, Steps: scattered},
		"dynamic, over what is there":   {Options: "force_size=on", Steps: scattered},
		"dynamic, written from the end": {Options: "force_size=on", Empty: true, Steps: []string{"io write -P 1 8M 5k", "io write -P 2 6M 1M", "io write -P 3 3M 512", "io write -P 4 0 1k"}},
		"fixed":                         {Options: "subformat=fixed"},
		"fixed, of exactly its size":    {Options: "subformat=fixed,force_size=on"},
		"fixed, written at random":      {Options: "subformat=fixed", Empty: true, Steps: scattered},
	}
}

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	for name, recipe := range recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, want := imagetest.MakeAs(t, t.TempDir(), "vpc", recipe)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			requireEveryWay(t, content, want)
			if bytes.HasPrefix(content, []byte(footerCookie)) {
				t.Run("the table moved to the end", func(t *testing.T) { requireEveryWay(t, tableLast(content), want) })
			}
		})
	}
}

// TestReadsAsLongADiskAsQEMUDoes compares with qemu-img where creator, geometry and current size say different things.
func TestReadsAsLongADiskAsQEMUDoes(t *testing.T) {
	shorter, endless := putBytes(56, "\x00\x01\x02\x03"), putBytes(56, "\xff\xff\x10\xff")
	for name, test := range map[string]struct {
		creator  string
		geometry func(footer []byte)
		size     int // of the disk in bytes
	}{
		"Virtual PC":                        {"vpc ", shorter, 6 * sector},
		"Virtual Server":                    {"vs  ", shorter, 6 * sector},
		"QEMU":                              {"qemu", shorter, 6 * sector},
		"QEMU with force_size":              {"qem2", shorter, builtDisk},
		"Windows":                           {"win ", shorter, builtDisk},
		"Disk2vhd":                          {"d2v ", shorter, builtDisk},
		"Xen":                               {"tap\x00", shorter, builtDisk},
		"XenConverter":                      {"CTXS", shorter, builtDisk},
		"Virtual PC, the greatest geometry": {"vpc ", endless, builtDisk},
	} {
		for kind, content := range map[string][]byte{
			"dynamic": build(putBytes(28, test.creator), test.geometry),
			"fixed":   buildFixed(builtWant(), putBytes(28, test.creator), test.geometry),
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "image.vhd")
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				want, ok := imagetest.TryConvert(t, path, "vpc")
				if !ok || len(want) != test.size {
					t.Fatalf("QEMU reads %d bytes, %v", len(want), ok)
				}
				requireEveryWay(t, content, want)
			})
		}
	}
}

// TestADiskOfAnUnknownProgramIsNotCut has programs whose disks QEMU 7.2 cuts to their geometry, and that go by the current size
// themselves. Azure's is one that later versions of QEMU know.
func TestADiskOfAnUnknownProgramIsNotCut(t *testing.T) {
	for _, creator := range []string{"vbox", "wa\x00\x00", "any "} {
		shorter := putBytes(56, "\x00\x01\x02\x03")
		requireEveryWay(t, build(putBytes(28, creator), shorter), builtWant())
		requireEveryWay(t, buildFixed(builtWant(), putBytes(28, creator), shorter), builtWant())
	}
}

// requireEveryWay requires that every way of reading an image gives the disk.
func requireEveryWay(t *testing.T, content, disk []byte) {
	t.Helper()
	img, err := openAny(content, image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if img.Format() != image.VHD {
		t.Errorf("it is read as %s", img.Format())
	}
	if len(disk) > 0 {
		imagetest.RequireDisk(t, img, disk)
	}
	for _, w := range waysForward() {
		got, err := decodeForward(content, w)
		var refused *image.Refused
		if w.memory > 0 && !w.random && errors.As(err, &refused) && refused.Reason == image.NeedsRandomAccess {
			continue // the table is last
		}
		if err != nil {
			t.Fatalf("forward, %+v: %v", w, err)
		}
		imagetest.RequireEqual(t, got, disk)
	}
}

// way is a way of decoding forward.
type way struct {
	random, unknown bool // the source can be read anywhere; its length isn't known
	memory, disk    int64
	step            int // how many bytes one read of the stream gives at most; 0 is any number
}

func waysForward() []way {
	return []way{{}, {unknown: true}, {random: true}, {random: true, memory: 1}, {memory: 1}}
}

// openAny opens an image of either kind.
func openAny(content []byte, limits image.Limits) (image.Image, error) {
	length := int64(len(content))
	if bytes.HasPrefix(content, []byte(footerCookie)) {
		return Open(bytes.NewReader(content), length, limits)
	}
	return OpenUnmarked(bytes.NewReader(content), length)
}

// beginAny begins a forward pass over an image of either kind, and answers what it reads from.
func beginAny(content []byte, w way) (image.Forward, image.Input, error) {
	length := int64(len(content))
	if w.unknown {
		length = image.Unknown
	}
	head := content[:min(len(content), image.HeadBytes)]
	in := image.Input{Stream: bytes.NewReader(content), Limits: image.Limits{MemoryBytes: w.memory, DiskBytes: w.disk}}
	if w.random {
		in.Random = bytes.NewReader(content)
	}
	if w.step > 0 {
		in.Stream = steps{in.Stream, w.step}
	}
	if bytes.HasPrefix(content, []byte(footerCookie)) {
		f, err := Begin(head, length, in.Limits)
		return f, in, err
	}
	f, err := BeginUnmarked(head, length, in.Random)
	return f, in, err
}

// decodeForward decodes an image in one forward pass into memory.
func decodeForward(content []byte, w way) ([]byte, error) {
	f, in, err := beginAny(content, w)
	if err != nil {
		return nil, err
	}
	if f.Size() != image.Unknown {
		return imagetest.Decode(f, in)
	}
	var disk bytes.Buffer
	err = f.Run(context.Background(), in, func(p image.Piece, stored []byte) error {
		if p.Offset != int64(disk.Len()) {
			panic(fmt.Sprintf("%d bytes of an unmarked image, and then those at %d", disk.Len(), p.Offset))
		}
		_, err := disk.Write(stored[:p.Len])
		return err
	})
	if err == nil {
		disk.Write(make([]byte, f.Size()-int64(disk.Len()))) // the rest of the last sector
	}
	return disk.Bytes(), err
}

// steps is a reader that gives a few bytes at a time.
type steps struct {
	r io.Reader
	n int
}

// Read implements io.Reader.
func (s steps) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
