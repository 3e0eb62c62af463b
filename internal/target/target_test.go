package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const diskBytes = 5<<20 + 512

// dirty is a disk full of something.
func dirty(n int) []byte { return bytes.Repeat([]byte("old bytes "), n/10+1)[:n] }

// TestEveryTargetForgetsWhatWasThere runs the contract of Target.
func TestEveryTargetForgetsWhatWasThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(file, dirty(diskBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	device := loopDevice(t, dirty(diskBytes+1<<20))
	targets := map[string]struct {
		open func() (Target, error)
		read func() ([]byte, error)
	}{
		"a file": {
			open: func() (Target, error) { return OpenFile(FileOptions{Path: file, SizeBytes: diskBytes}) },
			read: func() ([]byte, error) { return os.ReadFile(file) },
		},
		"a preallocated file": {
			open: func() (Target, error) {
				return OpenFile(FileOptions{Path: file, SizeBytes: diskBytes, Preallocation: Falloc})
			},
			read: func() ([]byte, error) { return os.ReadFile(file) },
		},
		"a block device": {
			open: func() (Target, error) { return OpenBlock(BlockOptions{Path: device, SizeBytes: diskBytes}) },
			read: func() ([]byte, error) {
				b, err := os.ReadFile(device)
				if err == nil && !bytes.Equal(b[diskBytes:], dirty(len(b))[diskBytes:]) {
					t.Error("what lies behind the disk was changed")
				}
				return b[:min(len(b), diskBytes)], err
			},
		},
	}
	memory := NewMemory(diskBytes)
	targets["memory"] = struct {
		open func() (Target, error)
		read func() ([]byte, error)
	}{
		open: func() (Target, error) { return memory, nil },
		read: func() ([]byte, error) { b, _ := memory.Bytes(); return b, nil },
	}
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			want := make([]byte, diskBytes)
			for attempt := range 2 { // the second finds the first one's bytes
				x, err := target.open()
				if err != nil {
					t.Fatal(err)
				}
				if x.Size() != diskBytes {
					t.Errorf("size %d", x.Size())
				}
				if err := x.Clear(t.Context()); err != nil {
					t.Fatal(err)
				}
				clear(want)
				for _, offset := range []int{0, 4096 * (10 + attempt), diskBytes - 512} {
					p := bytes.Repeat([]byte{byte(1 + attempt)}, 512)
					if n, err := x.WriteAt(p, int64(offset)); n != len(p) || err != nil {
						t.Fatalf("write: %d, %v", n, err)
					}
					copy(want[offset:], p)
				}
				if err := errors.Join(x.Commit(), x.Close()); err != nil {
					t.Fatal(err)
				}
				got, err := target.read()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("attempt %d: not what was written", attempt)
				}
			}
		})
	}
}

func TestAFileIsSparseUnlessPreallocated(t *testing.T) {
	for name, preallocation := range map[string]Preallocation{"sparse": Sparse, "allocated": Falloc, "written": Full} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.img")
			defer syscall.Umask(syscall.Umask(0o077))
			x, err := OpenFile(FileOptions{Path: path, SizeBytes: 64 << 20, Preallocation: preallocation})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(x.Clear(t.Context()), x.Commit(), x.Close()); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			allocated := info.Sys().(*syscall.Stat_t).Blocks * 512
			if info.Size() != 64<<20 || info.Mode() != 0o660 || (preallocation != Sparse) != (allocated >= 64<<20) {
				t.Errorf("%d bytes, mode %v, %d allocated", info.Size(), info.Mode(), allocated)
			}
		})
	}
}

// TestAWholeFileHasItsNameOnlyAtTheEnd looks into the directory at each step.
func TestAWholeFileHasItsNameOnlyAtTheEnd(t *testing.T) {
	for name, old := range map[string]string{"where nothing was": "", "in place of another": "old"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "disk.img")
			if old != "" {
				if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, commit := range []bool{false, true} {
				x, err := OpenFile(FileOptions{Path: path, SizeBytes: Unknown, Whole: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := x.Clear(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := x.WriteAt([]byte("new"), 4096); err != nil {
					t.Fatal(err)
				}
				if b, _ := os.ReadFile(path); string(b) != old { // there may be none
					t.Errorf("before Commit it holds %q", b)
				}
				if commit {
					err = errors.Join(x.(Resizer).Resize(8192), x.Commit())
				}
				if err := errors.Join(err, x.Close()); err != nil {
					t.Fatal(err)
				}
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				if want := old != "" || commit; len(entries) != 1 && want || len(entries) != 0 && !want {
					t.Errorf("commit %v: the directory holds %v", commit, entries)
				}
			}
			want := append(make([]byte, 4096), append([]byte("new"), make([]byte, 4093)...)...)
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("it holds %d bytes that are not the right ones, %v", len(got), err)
			}
		})
	}
}

// TestAZeroedDeviceIsNotClearedOnce shows that its bytes stay, which is what its owner vouches for, but not those of a
// first attempt.
func TestAZeroedDeviceIsNotClearedOnce(t *testing.T) {
	device := loopDevice(t, dirty(diskBytes))
	x, err := OpenBlock(BlockOptions{Path: device, SizeBytes: Unknown, Zeroed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Size() != diskBytes {
		t.Errorf("size %d", x.Size())
	}
	for attempt, want := range [][]byte{dirty(diskBytes), make([]byte, diskBytes)} {
		if err := errors.Join(x.Clear(t.Context()), x.Commit()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(device); err != nil || !bytes.Equal(got, want) {
			t.Errorf("after Clear %d it holds other bytes, %v", attempt+1, err)
		}
	}
}

// TestADeviceIsThinUnlessPreallocated looks at the file behind a loop device, which is sparse as a thin volume is.
func TestADeviceIsThinUnlessPreallocated(t *testing.T) {
	for name, preallocation := range map[string]Preallocation{"thin": Sparse, "allocated": Falloc, "written": Full} {
		t.Run(name, func(t *testing.T) {
			device := loopDevice(t, make([]byte, diskBytes))
			x, err := OpenBlock(BlockOptions{Path: device, SizeBytes: diskBytes, Preallocation: preallocation})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(x.Clear(t.Context()), x.Commit(), x.Close()); err != nil {
				t.Fatal(err)
			}
			backing := strings.TrimSpace(run(t, "losetup", "--noheadings", "--output", "BACK-FILE", device))
			info, err := os.Stat(backing)
			if err != nil {
				t.Fatal(err)
			}
			if allocated := info.Sys().(*syscall.Stat_t).Blocks * 512; (preallocation != Sparse) != (allocated >= diskBytes) {
				t.Errorf("%d of %d bytes are allocated", allocated, diskBytes)
			}
		})
	}
}

// TestEveryWayOfMakingZerosMakesZeros tries each way alone, and each after another that is not supported.
func TestEveryWayOfMakingZerosMakesZeros(t *testing.T) {
	device := loopDevice(t, dirty(diskBytes))
	unsupported := func(int64, int64) error { return unix.EOPNOTSUPP }
	writing := func(b *block) func(int64, int64) error {
		return func(offset, n int64) error { return writeZeros(t.Context(), b.f, offset, n) }
	}
	ways := map[string]func(b *block) []func(offset, n int64) error{
		"punching": func(b *block) []func(int64, int64) error {
			return list(b.fallocate(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE))
		},
		"zeroing by the kernel": func(b *block) []func(int64, int64) error {
			return list(b.fallocate(unix.FALLOC_FL_ZERO_RANGE | unix.FALLOC_FL_KEEP_SIZE))
		},
		"writing": func(b *block) []func(int64, int64) error { return list(writing(b)) },
		"writing after two that are not supported": func(b *block) []func(int64, int64) error {
			return list(unsupported, unsupported, writing(b))
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(device, dirty(diskBytes), 0o600); err != nil {
				t.Fatal(err)
			}
			x, err := OpenBlock(BlockOptions{Path: device, SizeBytes: diskBytes})
			if err != nil {
				t.Fatal(err)
			}
			b := x.(*block)
			if err := errors.Join(b.clear(t.Context(), way(b)), b.Commit(), b.Close()); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(device)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, make([]byte, diskBytes)) {
				t.Error("the device is not zero")
			}
		})
	}
}

func list(f ...func(offset, n int64) error) []func(offset, n int64) error { return f }

func TestADeviceThatFailsIsNotTakenForZero(t *testing.T) {
	b := &block{path: "/dev/x", size: diskBytes, sector: 512}
	err := b.clear(t.Context(), list(func(int64, int64) error { return unix.EIO }, func(int64, int64) error { return nil }))
	requireError(t, err, Error{Reason: IO, Message: "make 5243392 bytes zero at offset 0 of /dev/x: input/output error"})
}

func TestClearStopsWhenTheContextIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := &block{path: "/dev/x", size: diskBytes, sector: 512}
	if err := b.clear(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTooSmallVolumesAreNamed(t *testing.T) {
	device := loopDevice(t, dirty(1<<20))
	small := smallFilesystem(t, 4<<20)
	tests := map[string]struct {
		open func() (Target, error)
		want Error
	}{
		"a device": {
			open: func() (Target, error) { return OpenBlock(BlockOptions{Path: device, SizeBytes: diskBytes}) },
			want: Error{Reason: DeviceTooSmall, Message: "the disk needs 5243392 bytes, and the volume's device " + device + " has 1048576: the volume was made smaller than it was asked for"},
		},
		"a filesystem": {
			open: func() (Target, error) {
				return OpenFile(FileOptions{Path: filepath.Join(small, "disk.img"), SizeBytes: diskBytes})
			},
			want: Error{Reason: FilesystemTooSmall, Message: "the disk needs a file of 5243392 bytes, and the volume's filesystem has room for 4194304: ask for a larger volume, which allows for the filesystem's own needs"},
		},
		"a file in place of a device": {
			open: func() (Target, error) { return OpenBlock(BlockOptions{Path: "target_test.go", SizeBytes: 1}) },
			want: Error{Reason: NotADevice, Message: "target_test.go is not a block device"},
		},
		"no device": {
			open: func() (Target, error) { return OpenBlock(BlockOptions{Path: "/dev/none", SizeBytes: 1}) },
			want: Error{Reason: Missing, Message: "open the block device /dev/none: no such file or directory"},
		},
		"no directory": {
			open: func() (Target, error) { return OpenFile(FileOptions{Path: "/none/disk.img", SizeBytes: 1}) },
			want: Error{Reason: Missing, Message: "look at the filesystem of /none: no such file or directory"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := test.open()
			requireError(t, err, test.want)
		})
	}
}

func TestAFileShrinksToItsFilesystemWhereThatIsAllowed(t *testing.T) {
	dir := smallFilesystem(t, 4<<20+64<<10)
	path := filepath.Join(dir, "disk.img")
	if err := os.WriteFile(path, dirty(3<<20), 0o600); err != nil { // an earlier attempt's file takes no room from this one
		t.Fatal(err)
	}
	x, err := OpenFile(FileOptions{Path: path, SizeBytes: diskBytes, AllowSmaller: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.Clear(t.Context()), x.Commit(), x.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if x.Size() != 4<<20 || info.Size() != 4<<20 {
		t.Errorf("the target has %d bytes, its file %d", x.Size(), info.Size())
	}
}

func TestAFullVolumeIsNamed(t *testing.T) {
	dir := smallFilesystem(t, 4<<20)
	path := filepath.Join(dir, "disk.img")
	x, err := OpenFile(FileOptions{Path: path, SizeBytes: 3 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), dirty(3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = x.WriteAt(dirty(2<<20), 1<<20)
	requireError(t, err, Error{Reason: NoSpace, Message: "write 2097152 bytes at offset 1048576 of " + path + ": the volume is full (no space left on device); ask for a larger one, or make room in its storage pool"})
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

func TestADeviceThatMayNotBeOpenedNamesTheSetting(t *testing.T) {
	err := openError(&fs.PathError{Op: "open", Path: "/dev/disk", Err: syscall.EACCES}, "/dev/disk")
	requireError(t, err, Error{Reason: Permission, Message: fmt.Sprintf("user %d may not open the block device /dev/disk: set device_ownership_from_security_context to true in the node's container runtime (containerd or CRI-O), so that a pod's user owns its devices", os.Getuid())})
}

// requireError compares all of an error but its cause.
func requireError(t *testing.T, err error, want Error) {
	t.Helper()
	var got *Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v", err)
	}
	bare := *got
	bare.Err = nil
	if diff := cmp.Diff(want, bare); diff != "" {
		t.Error(diff)
	}
}

// loopDevice makes a loop device over a file with the given content. It needs root.
func loopDevice(t *testing.T, content []byte) string {
	t.Helper()
	backing := filepath.Join(t.TempDir(), "backing")
	if err := os.WriteFile(backing, content, 0o600); err != nil {
		t.Fatal(err)
	}
	device := strings.TrimSpace(run(t, "losetup", "--find", "--show", backing))
	t.Cleanup(func() { run(t, "losetup", "--detach", device) })
	return device
}

// smallFilesystem mounts a filesystem of so many bytes. It needs root.
func smallFilesystem(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "vmdisk-test", dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v (these tests need root, for loop devices and mounts)\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
