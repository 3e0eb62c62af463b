package transfer

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/target"
)

// passing is a source that passes by once, as standard input does.
type passing struct{ sourcetest.Memory }

func (p *passing) Describe(ctx context.Context) (source.Description, error) {
	d, err := p.Memory.Describe(ctx)
	d.Length, d.Ranges, d.Once, d.Validator = source.Unknown, false, true, ""
	return d, err
}

// backwards is an image that needs more memory than 1 MiB to be decoded in one pass, and the disk in it: qemu-img has filled it from its end.
func backwards(t *testing.T) (content, disk []byte) {
	t.Helper()
	path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Options: "cluster_size=512,preallocation=full", Empty: true,
		Steps: []string{"resize 16M", "io write -P 7 14M 512k", "io write -P 9 1M 512k"}})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content, disk
}

func TestWhatCannotBeDecodedInOnePassIsKeptInScratch(t *testing.T) {
	content, disk := backwards(t)
	packed := pack(t, content, "gzip", "-1")
	twice := pack(t, packed, "zstd", "-q")
	sources := map[string]struct {
		content []byte
		source  func(content []byte) source.Source
		length  int64
	}{
		"from a server without ranges":  {content, func(c []byte) source.Source { return &sourcetest.Memory{Content: c, Forward: true} }, 0},
		"from standard input":           {content, func(c []byte) source.Source { return &passing{sourcetest.Memory{Content: c}} }, 0},
		"packed, from a good server":    {packed, func(c []byte) source.Source { return &sourcetest.Memory{Content: c} }, 0},
		"packed twice, without ranges":  {twice, func(c []byte) source.Source { return &sourcetest.Memory{Content: c, Forward: true} }, 0},
		"packed, from standard input":   {packed, func(c []byte) source.Source { return &passing{sourcetest.Memory{Content: c}} }, 0},
		"and fits the limit just so":    {content, func(c []byte) source.Source { return &sourcetest.Memory{Content: c, Forward: true} }, int64(len(content))},
		"packed, and fits the limit so": {packed, func(c []byte) source.Source { return &sourcetest.Memory{Content: c} }, int64(len(content))},
	}
	for name, test := range sources {
		t.Run(name, func(t *testing.T) {
			limits := image.Limits{MemoryBytes: 4 << 20}
			job := Job{Source: test.source(test.content), Target: target.NewMemory(int64(len(disk))), Limits: limits, Checksum: checksumOf(t, test.content), Hash: true}
			_, err := Run(t.Context(), job)
			if !needsRandom(err) {
				t.Fatalf("without scratch: %v", err)
			}
			dir := t.TempDir()
			to := target.NewMemory(int64(len(disk)))
			job.Source, job.Target, job.Scratch = test.source(test.content), to, Scratch{Dir: dir, Bytes: test.length}
			var done, total int64
			job.Progress = func(d, of int64) { done, total = d, of }
			report, err := Run(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			requireDisk(t, to, disk)
			if report.Format != image.QCOW2 || report.VirtualBytes != int64(len(disk)) || report.ContentHash == "" || report.WrittenBytes == 0 || done != total || total == 0 {
				t.Errorf("%+v; progress %d of %d", report, done, total)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
				t.Errorf("left in scratch: %v, %v", left, err)
			}
		})
	}
}

func TestScratchIsNotTouchedWhereItIsNotNeeded(t *testing.T) {
	path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Compressed: true})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	late, lateDisk := backwards(t)
	for name, test := range map[string]struct {
		source source.Source
		disk   []byte
	}{
		"an image that can be decoded in one pass": {&sourcetest.Memory{Content: content, Forward: true}, disk},
		"one that can't, from a server of ranges":  {&sourcetest.Memory{Content: late}, lateDisk},
		"a raw disk on standard input":             {&passing{sourcetest.Memory{Content: disk}}, disk},
	} {
		t.Run(name, func(t *testing.T) {
			to := target.NewMemory(int64(len(test.disk)))
			_, err := Run(t.Context(), Job{Source: test.source, Target: to, Limits: image.Limits{MemoryBytes: 4 << 20}, Scratch: Scratch{Dir: "/nowhere"}})
			if err != nil {
				t.Fatal(err)
			}
			requireDisk(t, to, test.disk)
		})
	}
}

func TestScratchHasBounds(t *testing.T) {
	content, disk := backwards(t)
	packed := pack(t, content, "gzip", "-1")
	known := func() source.Source { return withLength{&sourcetest.Memory{Content: content, Forward: true}} }
	unknown := func() source.Source { return &sourcetest.Memory{Content: packed, Forward: true} }
	tests := map[string]struct {
		source  source.Source
		scratch Scratch
		reason  string
	}{
		"an image that is known to be longer":     {known(), Scratch{Dir: t.TempDir(), Bytes: int64(len(content)) - 1}, string(ScratchTooSmall)},
		"an image that turns out to be longer":    {unknown(), Scratch{Dir: t.TempDir(), Bytes: int64(len(content)) - 1}, string(ScratchTooSmall)},
		"a directory that isn't there":            {known(), Scratch{Dir: "/nowhere"}, string(target.IO)},
		"a filesystem that is full":               {known(), Scratch{Dir: tinyFilesystem(t)}, string(target.NoSpace)},
		"an image that is not what was announced": {unknown(), Scratch{Dir: t.TempDir()}, "checksum"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sum := checksumOf(t, content)
			_, err := Run(t.Context(), Job{Source: test.source, Target: target.NewMemory(int64(len(disk))), Limits: image.Limits{MemoryBytes: 4 << 20}, Scratch: test.scratch, Checksum: sum})
			if diff := cmp.Diff(test.reason, reasonOf(err)); diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
			if test.scratch.Dir == "/nowhere" {
				return
			}
			if left, err := os.ReadDir(test.scratch.Dir); err != nil || len(left) > 1 || len(left) == 1 && left[0].Name() != "lost+found" {
				t.Errorf("left in scratch: %v, %v", left, err)
			}
		})
	}
}

// reasonOf is what kind of error it is.
func reasonOf(err error) string {
	var refused *image.Refused
	var to *target.Error
	switch {
	case errors.As(err, &refused):
		return string(refused.Reason)
	case errors.As(err, &to):
		return string(to.Reason)
	case err != nil:
		return "checksum"
	default:
		return ""
	}
}

// tinyFilesystem mounts a filesystem of a megabyte. It needs root.
func tinyFilesystem(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	imagetest.Run(t, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", dir)
	t.Cleanup(func() { imagetest.Run(t, "umount", dir) })
	return dir
}
