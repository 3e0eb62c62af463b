package worker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vmdisk.io/vmdisk/internal/job"
)

// sourceDisk puts a disk on a volume of a kind, with something behind its end where that is a device.
func sourceDisk(t *testing.T, kind job.Kind, disk []byte, sectorBytes int) job.Volume {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source.img")
	if kind == job.File {
		sparseFile(t, path, disk)
		return job.Volume{Kind: job.File, Path: path}
	}
	behind := bytes.Repeat([]byte("behind the disk "), 1<<20/16)
	if err := os.WriteFile(path, append(bytes.Clone(disk), behind...), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--read-only", "--sector-size", fmt.Sprint(sectorBytes), "--find", "--show", path).CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v (this test needs root)\n%s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach: %v\n%s", err, out)
		}
	})
	return job.Volume{Kind: job.Block, Path: device, SizeBytes: int64(len(disk))}
}

// sparseFile writes a file with a hole wherever 64 KiB of it are zero.
func sparseFile(t *testing.T, path string, content []byte) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the error that counts is Truncate's
	for at := 0; at < len(content); at += 64 << 10 {
		part := content[at:min(at+64<<10, len(content))]
		if bytes.Count(part, []byte{0}) == len(part) {
			continue
		}
		if _, err := f.WriteAt(part, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

// aDisk has data, long runs of zeros, data that is small, and an end that is zero.
func aDisk(length int) []byte {
	disk := make([]byte, length)
	for i := range 3 << 20 {
		disk[i] = byte(i*i>>7) | 1
	}
	copy(disk[9<<20+512:], "a lonely word")
	copy(disk[length-5<<20:], bytes.Repeat([]byte("near the end "), 1000))
	return disk
}

func TestADiskIsCopiedBetweenVolumesOfAnyKind(t *testing.T) {
	shapes := map[string]struct {
		disk   []byte
		sector int
	}{
		"sparse":                         {aDisk(24 << 20), 512},
		"of a size that isn't a block's": {aDisk(20<<20 + 512), 512},
		"dense":                          {bytes.Repeat([]byte("no zeros "), 1<<20), 512},
		"with sectors of 4096 bytes":     {aDisk(24 << 20), 4096},
	}
	for shape, s := range shapes {
		for _, from := range []job.Kind{job.File, job.Block} {
			for _, to := range []job.Kind{job.File, job.Block} {
				t.Run(fmt.Sprintf("%s, from a %s to a %s", shape, from, to), func(t *testing.T) {
					source := sourceDisk(t, from, s.disk, s.sector)
					target := fileTarget(t, int64(len(s.disk))+1<<20)
					if to == job.Block {
						target = job.Target{Kind: job.Block, Path: dirtyDevice(t, target.SizeBytes), SizeBytes: target.SizeBytes}
					}
					result := Run(t.Context(), volumeSpec(source, target), options())
					want := job.Result{Version: job.Version, Outcome: job.Succeeded, Format: "raw", VirtualBytes: (int64(len(s.disk)) + 511) / 512 * 512}
					if diff := cmp.Diff(want, result, cmpopts.IgnoreFields(job.Result{}, "ReadBytes", "WrittenBytes", "ContentHash")); diff != "" {
						t.Fatal(diff)
					}
					got, err := os.ReadFile(target.Path)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, append(bytes.Clone(s.disk), make([]byte, len(got)-len(s.disk))...)) {
						t.Error("the copy is not the disk, with zeros behind it")
					}
				})
			}
		}
	}
}

func volumeSpec(source job.Volume, target job.Target) job.Spec {
	return job.Spec{Version: job.Version, Disk: "tenant/disk", Attempt: 1, Source: job.Source{Volume: &source}, Target: target}
}

func TestHolesAreNotRead(t *testing.T) {
	disk := aDisk(200 << 20)
	source := sourceDisk(t, job.File, disk, 0)
	var out bytes.Buffer
	o := options()
	o.Stdout = &out
	result := Run(t.Context(), volumeSpec(source, fileTarget(t, int64(len(disk)))), o)
	if result.Outcome != job.Succeeded || result.ReadBytes > 4<<20 || result.WrittenBytes > 4<<20 {
		t.Errorf("%+v: most of the disk is holes, and was read or written", result)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last, ok := job.ParseProgress(lines[len(lines)-1])
	if !ok || last.DoneBytes != last.TotalBytes || last.TotalBytes != int64(len(disk)) {
		t.Errorf("the last progress is %+v", last)
	}
}

// What is on a disk is a guest's: it must never be able to make a worker take its disk for something else.
func TestAGuestCannotDisguiseItsDisk(t *testing.T) {
	qcow2 := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 1<<20)...)
	gzip := append([]byte("\x1f\x8b\x08"), make([]byte, 1<<20)...)
	for name, disk := range map[string][]byte{"as a qcow2 image": qcow2[:1<<20], "as a gzip file": gzip[:1<<20]} {
		t.Run(name, func(t *testing.T) {
			target := fileTarget(t, 1<<20)
			result := Run(t.Context(), volumeSpec(sourceDisk(t, job.File, disk, 0), target), options())
			if result.Outcome != job.Succeeded || result.Format != "raw" {
				t.Fatalf("%+v", result)
			}
			if got, err := os.ReadFile(target.Path); err != nil || !bytes.Equal(got, disk) {
				t.Errorf("the copy differs (%v)", err)
			}
		})
	}
}

func TestACopyThatCannotBeMadeSaysWhy(t *testing.T) {
	small := sourceDisk(t, job.File, make([]byte, 1<<20), 0)
	short := small
	short.SizeBytes = 2 << 20
	tests := map[string]struct {
		source job.Volume
		target int64
		want   job.Result
	}{
		"no disk on the volume": {job.Volume{Kind: job.File, Path: "/nowhere/disk.img"}, 1 << 20, job.Result{Outcome: job.SourceFailed, Reason: "NotFound",
			Message: "there is no disk on the source's volume (there is no file /nowhere/disk.img): is it a virtual machine's disk, and was it filled?"}},
		"a source that is shorter than it should be": {short, 2 << 20, job.Result{Outcome: job.SourceFailed, Reason: "BadAnswer",
			Message: small.Path + " has 1048576 bytes, fewer than the 2097152 of the disk that should be on it"}},
		"a target that is smaller": {small, 1 << 19, job.Result{Outcome: job.Refused, Reason: "ImageLargerThanDisk",
			Message: small.Path + ": the disk in the image has 1048576 bytes, and the disk to be filled has 524288: ask for one that is large enough"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Run(t.Context(), volumeSpec(test.source, fileTarget(t, test.target)), options())
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(job.Result{}, "Version", "Format", "VirtualBytes", "ReadBytes")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// stopper tells a worker to stop once it has printed a checkpoint.
type stopper struct{ stop func() }

func (s stopper) Write(line []byte) (int, error) {
	if p, ok := job.ParseProgress(strings.TrimSpace(string(line))); ok && p.Checkpoint != "" {
		s.stop()
	}
	return len(line), nil
}

func TestACopyGoesOnWhereTheSourceIsKnownToBeTheSame(t *testing.T) {
	disk := bytes.Repeat([]byte("some data"), 32<<20/9)
	disk = append(disk[:32<<20-100], make([]byte, 32<<20+100)...)
	copy(disk[60<<20:], bytes.Repeat([]byte("more data"), 1<<16))
	tests := map[string]struct {
		kind    job.Kind
		version string
		goesOn  bool
	}{
		"a file":                             {job.File, "", true},
		"a device of a known version":        {job.Block, "claim-1", true},
		"a device that anybody may write to": {job.Block, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			source := sourceDisk(t, test.kind, disk, 512)
			source.Version = test.version
			spec := volumeSpec(source, fileTarget(t, int64(len(disk))))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			o := options()
			o.Stdout = stopper{stop}
			first := Run(ctx, spec, o)
			if (first.Checkpoint != "") != test.goesOn {
				t.Fatalf("%+v", first)
			}
			if !test.goesOn {
				return
			}
			spec.Checkpoint = first.Checkpoint
			second := Run(t.Context(), spec, options())
			if second.Outcome != job.Succeeded || second.ResumedAt == 0 {
				t.Fatalf("%+v", second)
			}
			if got, err := os.ReadFile(spec.Target.Path); err != nil || !bytes.Equal(got, disk) {
				t.Errorf("the copy is not the disk (%v)", err)
			}
		})
	}
}
