package target

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOnlyAFewBytesAreOnTheirWay counts what the kernel was not told to bring to the storage, or not waited for.
func TestOnlyAFewBytesAreOnTheirWay(t *testing.T) {
	x, err := OpenFile(FileOptions{Path: filepath.Join(t.TempDir(), "disk.img"), SizeBytes: 128 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f := x.(*file)
	if err := f.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := bytes.Repeat([]byte("data"), 256<<10)
	waited := false
	for offset := int64(0); offset < f.size; offset += int64(len(p)) {
		if _, err := f.WriteAt(p, offset); err != nil {
			t.Fatal(err)
		}
		var flying int64
		for _, window := range f.back.flying {
			for _, r := range window {
				flying += r.len
			}
		}
		if most := int64(maxWindows * windowBytes); f.back.bytes >= windowBytes || flying > most {
			t.Fatalf("%d bytes are not on their way, %d are", f.back.bytes, flying)
		} else if flying == most {
			waited = true
		}
	}
	if !waited || f.back.off {
		t.Error("nobody has waited")
	}
	if err := errors.Join(f.Commit(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestADeviceThatFailsIsNamedWithThePlace has a device whose storage is full, as a thin pool's is.
func TestADeviceThatFailsIsNamedWithThePlace(t *testing.T) {
	const size = 64 << 20
	for name, written := range map[string]int64{"while it is written": 48 << 20, "at the end": 6 << 20} {
		t.Run(name, func(t *testing.T) {
			device := overcommittedDevice(t, size, 4<<20)
			x, err := OpenBlock(BlockOptions{Path: device, SizeBytes: size, Zeroed: true})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if err := x.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			p := dirty(1 << 20)
			for offset := int64(0); offset < written && err == nil; offset += int64(len(p)) {
				_, err = x.WriteAt(p, offset)
			}
			if (err != nil) != (name == "while it is written") {
				t.Errorf("writing: %v", err)
			}
			for _, err := range []error{err, x.Sync(), x.Commit()} { // it stays so
				var e *Error
				if err == nil && name == "at the end" {
					continue // writing
				}
				if !errors.As(err, &e) || e.Reason != IO && e.Reason != NoSpace || !strings.HasPrefix(e.Message, "bring ") || !strings.Contains(e.Message, " bytes at offset 0 of "+device+" to stable storage: ") {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// overcommittedDevice makes a device of size bytes with room for fewer. It needs root.
func overcommittedDevice(t *testing.T, size, room int64) string {
	t.Helper()
	backing := filepath.Join(smallFilesystem(t, int(room)), "backing")
	if err := os.WriteFile(backing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(backing, size); err != nil {
		t.Fatal(err)
	}
	device := strings.TrimSpace(run(t, "losetup", "--find", "--show", backing))
	t.Cleanup(func() { run(t, "losetup", "--detach", device) })
	return device
}

// TestADeviceWithLargeSectors has a disk that ends within a sector.
func TestADeviceWithLargeSectors(t *testing.T) {
	const disk = 5<<20 + 512
	backing := filepath.Join(t.TempDir(), "backing")
	old := dirty(6 << 20)
	if err := os.WriteFile(backing, old, 0o600); err != nil {
		t.Fatal(err)
	}
	device := strings.TrimSpace(run(t, "losetup", "--sector-size", "4096", "--find", "--show", backing))
	t.Cleanup(func() { run(t, "losetup", "--detach", device) })
	for name, size := range map[string]int64{"the disk is shorter": disk, "the disk is as long as the device": 6 << 20} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(device, old, 0o600); err != nil {
				t.Fatal(err)
			}
			x, err := OpenBlock(BlockOptions{Path: device, SizeBytes: size})
			if err != nil {
				t.Fatal(err)
			}
			b := x.(*block)
			punched := 0
			punch := b.fallocate(0x3) // with FALLOC_FL_PUNCH_HOLE and FALLOC_FL_KEEP_SIZE
			err = b.clear(t.Context(), list(func(offset, n int64) error { punched += int(n); return punch(offset, n) }))
			if err != nil || punched != int(size/4096*4096) {
				t.Errorf("%d bytes were punched, %v", punched, err)
			}
			if _, err := x.WriteAt([]byte("end"), size-3); err != nil {
				t.Error(err)
			}
			if err := errors.Join(x.Commit(), x.Close()); err != nil {
				t.Fatal(err)
			}
			want := bytes.Clone(old)
			clear(want[:size])
			copy(want[size-3:], "end")
			if got, err := os.ReadFile(device); err != nil || !bytes.Equal(got, want) {
				t.Errorf("it holds other bytes, %v", err)
			}
		})
	}
}

// TestAnUnfinishedFileIsFilledOn opens it again, as the next attempt does.
func TestAnUnfinishedFileIsFilledOn(t *testing.T) {
	for name, whole := range map[string]bool{"under its own name": false, "under another name": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := FileOptions{Path: filepath.Join(dir, "disk.img"), SizeBytes: 8192, Keep: true, Whole: whole}
			if whole {
				o.Part = filepath.Join(dir, ".disk.img.part")
			}
			open := func() Target {
				x, err := OpenFile(o)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			first := open()
			if id := first.Identity(); id != "" {
				t.Errorf("before it is cleared it is %q", id)
			}
			if err := first.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := first.WriteAt([]byte("first"), 100); err != nil {
				t.Fatal(err)
			}
			id := first.Identity()
			if err := errors.Join(first.Sync(), first.Close()); err != nil {
				t.Fatal(err)
			}
			second := open()
			if got := second.Identity(); got != id || id == "" {
				t.Errorf("it was %q and is %q", id, got)
			}
			if _, err := second.WriteAt([]byte("second"), 5000); err != nil {
				t.Fatal(err)
			}
			if whole {
				_, err := OpenFile(o)
				requireError(t, err, Error{Reason: InUse, Message: o.Part + " is being filled by another process: wait for its end"})
			}
			if err := errors.Join(second.Commit(), second.Close()); err != nil {
				t.Fatal(err)
			}
			want := make([]byte, 8192)
			copy(want[100:], "first")
			copy(want[5000:], "second")
			if got, err := os.ReadFile(o.Path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("it holds other bytes, %v", err)
			}
			if err := os.Remove(o.Path); err != nil {
				t.Fatal(err)
			}
			third := open()
			defer third.Close()
			if err := third.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := third.Identity(); got == id {
				t.Error("another file has the same identity")
			}
		})
	}
}

func TestADeviceIsKnownByMoreThanItsName(t *testing.T) {
	device := loopDevice(t, dirty(1<<20))
	x, err := OpenBlock(BlockOptions{Path: device, SizeBytes: Unknown})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	backing := strings.TrimSpace(run(t, "losetup", "--noheadings", "--output", "BACK-FILE", device))
	if want := backing + ", 1048576 bytes"; x.Identity() != want {
		t.Errorf("got %q, want %q", x.Identity(), want)
	}
}

func TestAFileKnowsItsHoles(t *testing.T) {
	x, err := OpenFile(FileOptions{Path: filepath.Join(t.TempDir(), "disk.img"), SizeBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := x.WriteAt([]byte("data"), 5<<20); err != nil {
		t.Fatal(err)
	}
	holes := make([]bool, 4)
	for i := range holes {
		holes[i] = x.(Holed).Hole(int64(i)*4<<20, 4<<20)
	}
	if diff := cmp.Diff([]bool{true, false, true, true}, holes); diff != "" {
		t.Error(diff)
	}
}

// TestExactFit has a filesystem with room for the disk and not a page more.
func TestExactFit(t *testing.T) {
	const size = 4 << 20
	dir := smallFilesystem(t, size)
	for _, preallocation := range []Preallocation{Sparse, Falloc, Full} {
		x, err := OpenFile(FileOptions{Path: filepath.Join(dir, "disk.img"), SizeBytes: size, Preallocation: preallocation})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := x.WriteAt(dirty(size), 0); err != nil {
			t.Error(err)
		}
		if err := errors.Join(x.Commit(), x.Close()); err != nil {
			t.Error(err)
		}
	}
}
