package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
)

// TestTheDiskIsWhatQEMUReads transfers images that qemu-img made and compares the disk with qemu-img's.
func TestTheDiskIsWhatQEMUReads(t *testing.T) {
	recipes := imagetest.Recipes()
	for _, name := range []string{
		"version 2, zlib", "zstd", "clusters of 512 bytes, zlib", "clusters of 2 MiB, zstd", "zlib and plain mixed",
		"smallest subclusters, written at random", "a snapshot, then grown", "zero clusters",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, want := imagetest.Make(t, t.TempDir(), recipes[name])
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for name, src := range map[string]*sourcetest.Memory{
				"with ranges":    {Content: content},
				"without ranges": {Content: content, Forward: true},
			} {
				t.Run(name, func(t *testing.T) {
					disk := target.NewMemory(int64(len(want)) + 4096) // the disk goes on behind the image
					report, err := Run(t.Context(), Job{Source: src, Target: disk, Checksum: checksumOf(t, content)})
					if err != nil {
						t.Fatal(err)
					}
					requireDisk(t, disk, want)
					if report.WrittenBytes != disk.Written() || report.VirtualBytes != int64(len(want)) || report.Format != image.QCOW2 || report.ReadBytes < int64(len(content)) {
						t.Errorf("report %+v", report)
					}
				})
			}
		})
	}
}

// requireDisk requires that a disk is want and then zeros, and that it is on stable storage.
func requireDisk(t *testing.T, disk *target.Memory, want []byte) {
	t.Helper()
	got, committed := disk.Bytes()
	if !committed {
		t.Error("the disk was not committed")
	}
	if !bytes.Equal(got[:len(want)], want) {
		t.Error("the disk is not the image's")
	}
	if len(bytes.Trim(got[len(want):], "\x00")) > 0 {
		t.Error("behind the image the disk is not zero")
	}
}

func checksumOf(t *testing.T, content []byte) stream.Checksum {
	t.Helper()
	sum := sha256.Sum256(content)
	c, err := stream.ParseChecksum("sha256:" + hex.EncodeToString(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARawImageIsItsOwnDisk(t *testing.T) {
	disk := imagetest.Disk()
	for name, content := range map[string][]byte{
		"of whole sectors":            disk,
		"that ends within a sector":   disk[:len(disk)-100],
		"of one sector":               disk[:512],
		"of less than a block":        disk[:70_000],
		"of zeros":                    make([]byte, 3<<20),
		"that looks like nothing yet": append(make([]byte, 512), disk...),
	} {
		for _, forward := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				to := target.NewMemory((int64(len(content)) + 511) / 512 * 512)
				report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content, Forward: forward}, Target: to, Checksum: checksumOf(t, content)})
				if err != nil {
					t.Fatal(err)
				}
				requireDisk(t, to, content)
				if report.ReadBytes != int64(len(content))+readTwice(content, forward) || report.VirtualBytes != to.Size() || report.Format != image.Raw {
					t.Errorf("report %+v", report)
				}
			})
		}
	}
}

// readTwice is how much of an image without a mark at its beginning is read twice where that can be: its last sector, by which it
// would be a fixed VHD, unless it is within its head.
func readTwice(content []byte, forward bool) int64 {
	if forward || len(content) <= image.HeadBytes {
		return 0
	}
	return int64(len(content)-1)%image.SectorSize + 1
}

// TestAFixedVHDFitsADiskOfItsOwnSize has an image that is a sector longer than its disk, which a raw one would not be.
func TestAFixedVHDFitsADiskOfItsOwnSize(t *testing.T) {
	path, want := imagetest.MakeAs(t, t.TempDir(), "vpc", imagetest.Recipe{Options: "subformat=fixed,force_size=on"})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string]source.Source{
		"with ranges":       &sourcetest.Memory{Content: content},
		"without ranges":    withLength{&sourcetest.Memory{Content: content, Forward: true}},
		"of unknown length": &sourcetest.Memory{Content: content, Forward: true},
	} {
		t.Run(name, func(t *testing.T) {
			to := target.NewMemory(int64(len(want)))
			report, err := Run(t.Context(), Job{Source: src, Target: to, Checksum: checksumOf(t, content)})
			if err != nil {
				t.Fatal(err)
			}
			requireDisk(t, to, want)
			if report.Format != image.VHD || report.VirtualBytes != int64(len(want)) {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// withLength is a source that can't be read anywhere and tells its length nevertheless.
type withLength struct{ *sourcetest.Memory }

func (w withLength) Describe(ctx context.Context) (source.Description, error) {
	d, err := w.Memory.Describe(ctx)
	d.Length = int64(len(w.Content))
	return d, err
}

func TestZerosAreNotWritten(t *testing.T) {
	content := make([]byte, 3<<20)
	content[5000] = 1                   // one block
	content[1<<20-1] = 1                // the last of a piece
	copy(content[2<<20-1:], "\x01\x01") // two, over the edge of a piece
	to := target.NewMemory(int64(len(content)))
	if _, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content}, Target: to}); err != nil {
		t.Fatal(err)
	}
	requireDisk(t, to, content)
	if diff := cmp.Diff(int64(4*4096), to.Written()); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	path, _ := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Options: "cluster_size=512", Compressed: true})
	qcow2, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw := imagetest.Disk()
	moved := movedL1(t)
	vhd := append(bytes.Clone(raw), append([]byte("conectix"), make([]byte, 504)...)...)
	tests := map[string]struct {
		source source.Source
		size   int64
		limits image.Limits
		reason image.Reason
		// untouched says that the target must not have been cleared.
		untouched bool
	}{
		"a qcow2 image of a larger disk":        {&sourcetest.Memory{Content: qcow2}, imagetest.DiskBytes - 512, image.Limits{}, LargerThanDisk, true},
		"a larger raw image":                    {&sourcetest.Memory{Content: raw}, imagetest.DiskBytes - 512, image.Limits{}, LargerThanDisk, true},
		"a larger raw image of unknown length":  {&sourcetest.Memory{Content: raw, Forward: true}, imagetest.DiskBytes - 512, image.Limits{}, LargerThanDisk, false},
		"a larger raw image without ranges":     {withLength{&sourcetest.Memory{Content: raw, Forward: true}}, imagetest.DiskBytes - 1024, image.Limits{}, LargerThanDisk, true},
		"a raw image of one sector too many":    {withLength{&sourcetest.Memory{Content: raw, Forward: true}}, imagetest.DiskBytes - 512, image.Limits{}, LargerThanDisk, false},
		"a web page":                            {&sourcetest.Memory{Content: []byte("<html>" + string(make([]byte, 600)))}, 1 << 20, image.Limits{}, image.NotADisk, true},
		"a few bytes":                           {&sourcetest.Memory{Content: make([]byte, 511)}, 1 << 20, image.Limits{}, image.NotADisk, true},
		"nothing":                               {&sourcetest.Memory{Content: nil}, 1 << 20, image.Limits{}, image.NotADisk, true},
		"nothing, of unknown length":            {&sourcetest.Memory{Content: nil, Forward: true}, 1 << 20, image.Limits{}, image.NotADisk, true},
		"a spoilt footer of a VHD":              {&sourcetest.Memory{Content: vhd}, 1 << 24, image.Limits{}, image.CorruptImage, true},
		"a spoilt footer, and no ranges":        {&sourcetest.Memory{Content: vhd, Forward: true}, 1 << 24, image.Limits{}, image.CorruptImage, false},
		"a qcow2 image that was cut off":        {&sourcetest.Memory{Content: qcow2[:len(qcow2)/2]}, 1 << 24, image.Limits{}, image.Truncated, false},
		"a qcow2 image with spoilt data":        {&sourcetest.Memory{Content: spoiltData(t)}, 1 << 24, image.Limits{}, image.CorruptImage, false},
		"tables behind the data, and no ranges": {&sourcetest.Memory{Content: moved, Forward: true}, 1 << 26, image.Limits{MemoryBytes: 1 << 20}, image.NeedsRandomAccess, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			disk := target.NewMemory(test.size)
			report, err := Run(t.Context(), Job{Source: test.source, Target: disk, Limits: test.limits})
			var refused *image.Refused
			if !errors.As(err, &refused) || refused.Reason != test.reason {
				t.Fatalf("got %v, want %s", err, test.reason)
			}
			b, committed := disk.Bytes()
			if committed {
				t.Error("the disk was committed")
			}
			if untouched := b[0] == 0xa5; untouched != test.untouched {
				t.Errorf("untouched is %v", untouched)
			}
			if test.untouched && report.ReadBytes > image.HeadBytes+image.SectorSize {
				t.Errorf("%d bytes were read", report.ReadBytes)
			}
		})
	}
}

// movedL1 is an image of some MiB whose L1 table lies behind its data.
func movedL1(t *testing.T) []byte {
	t.Helper()
	path, _ := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Options: "cluster_size=512,preallocation=full", Empty: true, Steps: []string{"resize 64M"}})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// spoiltData is an image whose last compressed cluster is noise.
func spoiltData(t *testing.T) []byte {
	t.Helper()
	path, _ := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Compressed: true})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(b, "\x00"))
	for i := end - 50; i < end; i++ {
		b[i] ^= 0x55
	}
	return b
}

func TestTheWholeSourceIsHashed(t *testing.T) {
	path, want := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Compressed: true})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	longer := append(bytes.Clone(content), make([]byte, 8<<20)...) // nothing in the image refers to it
	t.Run("also what no table refers to", func(t *testing.T) {
		disk := target.NewMemory(int64(len(want)))
		if _, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: longer}, Target: disk, Checksum: checksumOf(t, longer)}); err != nil {
			t.Fatal(err)
		}
		requireDisk(t, disk, want)
	})
	t.Run("so that a difference there is noticed", func(t *testing.T) {
		disk := target.NewMemory(int64(len(want)))
		_, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: longer}, Target: disk, Checksum: checksumOf(t, content)})
		var mismatch *stream.ChecksumError
		if _, committed := disk.Bytes(); !errors.As(err, &mismatch) || committed {
			t.Errorf("got %v, committed %v", err, committed)
		}
	})
}

func TestAContextThatIsDoneEndsATransfer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	disk := target.NewMemory(imagetest.DiskBytes)
	_, err := Run(ctx, Job{Source: &sourcetest.Memory{Content: imagetest.Disk()}, Target: disk, Progress: func(done, _ int64) {
		if done > 2<<20 {
			cancel()
		}
	}})
	if _, committed := disk.Bytes(); !errors.Is(err, context.Canceled) || committed {
		t.Errorf("got %v, committed %v", err, committed)
	}
}

func TestProgressCountsTheSourceWhereItsLengthIsKnown(t *testing.T) {
	path, want := imagetest.Make(t, t.TempDir(), imagetest.Recipe{})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type step struct{ Done, Total int64 }
	for name, test := range map[string]struct {
		source source.Source
		last   step
	}{
		"known":         {&sourcetest.Memory{Content: content}, step{int64(len(content)), int64(len(content))}},
		"not known":     {&sourcetest.Memory{Content: content, Forward: true}, step{int64(len(want)), int64(len(want))}},
		"neither known": {&sourcetest.Memory{Content: want, Forward: true}, step{int64(len(want)), int64(len(want))}}, // at the end
	} {
		t.Run(name, func(t *testing.T) {
			var last step
			_, err := Run(t.Context(), Job{Source: test.source, Target: target.NewMemory(int64(len(want))), Progress: func(done, total int64) {
				if done < last.Done {
					t.Errorf("from %d back to %d", last.Done, done)
				}
				last = step{done, total}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.last, last); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// failing is a target that fails, or panics, when it is written to.
type failing struct {
	*target.Memory
	fail func() error
}

func (f failing) WriteAt(p []byte, _ int64) (int, error) { return 0, f.fail() }

func TestATargetThatFailsEndsATransfer(t *testing.T) {
	full := &target.Error{Reason: target.NoSpace, Message: "full"}
	src := &sourcetest.Memory{Content: imagetest.Disk()}
	_, err := Run(t.Context(), Job{Source: src, Target: failing{target.NewMemory(imagetest.DiskBytes), func() error { return full }}})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	_, err = Run(t.Context(), Job{Source: src, Target: failing{target.NewMemory(imagetest.DiskBytes), func() error { panic("oh") }}})
	var p *Panic
	if !errors.As(err, &p) || p.Value != "oh" {
		t.Errorf("got %v", err)
	}
}

// broken is a source that breaks after some bytes.
type broken struct {
	sourcetest.Memory
	after int64
	err   error
}

func (b *broken) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := b.Memory.Open(ctx, offset, length)
	return io.NopCloser(io.MultiReader(io.LimitReader(r, b.after), iotestErr{b.err})), err
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

func TestASourceThatFailsEndsATransfer(t *testing.T) {
	path, _ := imagetest.Make(t, t.TempDir(), imagetest.Recipe{})
	qcow2, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"raw": imagetest.Disk(), "qcow2": qcow2} {
		for _, cause := range []error{nil, io.EOF, io.ErrUnexpectedEOF} { // which must not look like a good end
			for _, after := range []int64{0, 100, 3 << 20} {
				reset := &source.Error{Reason: source.ConnectionReset, Message: "reset", Err: cause}
				disk := target.NewMemory(imagetest.DiskBytes)
				_, err := Run(t.Context(), Job{Source: &broken{sourcetest.Memory{Content: content}, after, reset}, Target: disk})
				if _, committed := disk.Bytes(); !errors.Is(err, reset) || committed {
					t.Errorf("%s, after %d bytes, caused by %v: got %v, committed %v", name, after, cause, err, committed)
				}
			}
		}
	}
}

func TestAFileStaysSparse(t *testing.T) {
	path, want := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Compressed: true})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "disk.img")
	disk, err := target.OpenFile(target.FileOptions{Path: file, SizeBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content}, Target: disk})
	if err = errors.Join(err, disk.Close()); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // only read
	if _, err := io.ReadFull(f, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("not the image's disk: %v", err)
	}
	if allocated := allocatedBytes(t, f); allocated > report.WrittenBytes+1<<20 {
		t.Errorf("%d bytes are allocated for %d written", allocated, report.WrittenBytes)
	}
}

// opens counts how often a source is opened.
type opens struct {
	sourcetest.Memory
	n int
}

func (o *opens) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	o.n++
	return o.Memory.Open(ctx, offset, length)
}

// slow is a target whose clearing takes a minute by its clock.
type slow struct {
	*target.Memory
	now time.Time
}

func (s *slow) Clear(ctx context.Context) error {
	s.now = s.now.Add(time.Minute)
	return s.Memory.Clear(ctx)
}

func TestAConnectionDoesNotWaitForATargetThatTakesLongToClear(t *testing.T) {
	content := imagetest.Disk()
	for _, forward := range []bool{false, true} {
		src := &opens{Memory: sourcetest.Memory{Content: content, Forward: forward}}
		disk := &slow{Memory: target.NewMemory(imagetest.DiskBytes)}
		_, err := Run(t.Context(), Job{Source: src, Target: disk, Checksum: checksumOf(t, content), Now: func() time.Time { return disk.now }})
		if err != nil {
			t.Fatal(err)
		}
		requireDisk(t, disk.Memory, content)
		want := 2
		if !forward {
			want++ // for the last sector
		}
		if diff := cmp.Diff(want, src.n); diff != "" {
			t.Error(diff)
		}
	}
}
