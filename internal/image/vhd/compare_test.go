package vhd

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
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
			content, disk := imagetest.Image(t, "vpc", recipe)
			compare(t, content, disk)
			if isDynamic(content) {
				t.Run("the table moved to the end", func(t *testing.T) { compare(t, tableLast(content), disk) })
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
				compare(t, content, want)
			})
		}
	}
}

// TestADiskOfAnUnknownProgramIsNotCut has programs whose disks QEMU 7.2 cuts to their geometry, and that go by the current size
// themselves. Azure's is one that later versions of QEMU know.
func TestADiskOfAnUnknownProgramIsNotCut(t *testing.T) {
	for _, creator := range []string{"vbox", "wa\x00\x00", "any "} {
		t.Run(creator, func(t *testing.T) {
			shorter := putBytes(56, "\x00\x01\x02\x03")
			compare(t, build(putBytes(28, creator), shorter), builtWant())
			compare(t, buildFixed(builtWant(), putBytes(28, creator), shorter), builtWant())
		})
	}
}

// compare reads an image in every way, also by two passes of which the first was stopped.
func compare(t *testing.T, content, disk []byte) {
	t.Helper()
	ways := waysForward()
	imagetest.RequireReads(t, content, disk, open, ways)
	if img, err := open(bytes.NewReader(content), int64(len(content)), image.Limits{}); err != nil || img.Format() != image.VHD {
		t.Errorf("%v, %v", img, err)
	}
	const again = 256 << 10 // the table is read again together with what lies behind it
	for _, name := range []string{"forward with ranges", "forward with little memory and ranges"} {
		t.Run("in two passes, "+name, func(t *testing.T) {
			got := imagetest.RequireResume(t, ways[name], content, disk, 10, func(int64) int64 { return again })
			if len(got.Marks) < got.Pieces-1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

func isDynamic(content []byte) bool { return bytes.HasPrefix(content, []byte(footerCookie)) }

// open opens an image of either kind.
func open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	head, err := image.File{R: r, Length: length}.Head()
	if err == nil && isDynamic(head) {
		return Open(r, length, limits)
	}
	return OpenUnmarked(r, length)
}

// beginning is how a pass over an image of either kind begins.
type beginning struct {
	unknown bool // the image's length is
	random  bool // the end is read before the pass
	step    int  // how many bytes one read of the stream gives at most; 0 is any number
}

func (b beginning) begin(content []byte, limits image.Limits) (image.Forward, error) {
	head, length := content[:min(len(content), image.HeadBytes)], int64(len(content))
	var random io.ReaderAt
	if b.random {
		random = bytes.NewReader(content)
	}
	if b.unknown {
		length = image.Unknown
	}
	if isDynamic(content) {
		return Begin(head, length, limits)
	}
	f, err := BeginUnmarked(head, length, random)
	if err != nil || b.step == 0 {
		return f, err
	}
	return stepped{f, b.step}, nil
}

// stepped is a pass over a stream that gives a few bytes at a time.
type stepped struct {
	image.Forward
	step int
}

// Run implements image.Forward.
func (s stepped) Run(ctx context.Context, in image.Input, sink image.Sink) error {
	in.Stream = steps{in.Stream, s.step}
	return s.Forward.Run(ctx, in, sink)
}

// steps is a reader that gives a few bytes at a time.
type steps struct {
	r io.Reader
	n int
}

// Read implements io.Reader.
func (s steps) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }

func waysForward() imagetest.Ways {
	little := image.Limits{MemoryBytes: 1}
	return imagetest.Ways{
		"forward":                                  {Begin: beginning{}.begin},
		"forward with an unknown length":           {Begin: beginning{unknown: true}.begin},
		"forward with ranges":                      {Begin: beginning{random: true}.begin, Random: true},
		"forward with ranges that are known late":  {Begin: beginning{}.begin, Random: true},
		"forward with little memory and ranges":    {Begin: beginning{random: true}.begin, Random: true, Limits: little},
		"forward with little memory and no ranges": {Begin: beginning{}.begin, Limits: little, MayRefuse: true},
	}
}

// TestMutantsAreReadAsQEMUReadsThem changes a few bytes of the footer's copy, the header and the block allocation table of
// an image that QEMU made, but neither the creator nor the geometry, by which QEMU cuts disks.
func TestMutantsAreReadAsQEMUReadsThem(t *testing.T) {
	content, _ := imagetest.Image(t, "vpc", imagetest.Recipe{Options: "force_size=on"})
	places := []area{{8, 20}, {48, 8}, {60, 4}, {builtHeader + 8, 40}, {builtTable, 24}, {builtTable, 24}}
	imagetest.Mutants{
		Format: "vpc", Images: [][]byte{content}, Mend: seal, Count: 100, Limits: image.Limits{DiskBytes: 16 << 20},
		Place: func(r *rand.Rand, _ []byte) int {
			p := places[r.IntN(len(places))]
			return int(p.offset + r.Int64N(p.length))
		},
	}.Require(t, open, waysForward(), excuseNone)
}

// excuseNone has no excuse: what one way reads all must read.
func excuseNone([]byte, imagetest.Way, error) bool { return false }
