package target

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// image writes a disk.img with old bytes.
func image(t *testing.T, dir string, bytes int) string {
	t.Helper()
	path := filepath.Join(dir, "disk.img")
	if err := os.WriteFile(path, dirty(bytes), 0o660); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileOnlyGrows(t *testing.T) {
	const had = 2 << 20
	for name, c := range map[string]struct {
		to, want int64
		p        Preallocation
		occupies bool // the new bytes have their space
	}{
		"to a larger size":                    {to: 8 << 20, want: 8 << 20},
		"by one sector":                       {to: had + 512, want: had + 512},
		"with the space for it":               {to: 8 << 20, want: 8 << 20, p: Falloc, occupies: true},
		"not to the size that it has":         {to: had, want: had},
		"not to a smaller one":                {to: had - 512, want: had},
		"not to a smaller one, with its room": {to: 512, want: had, p: Falloc},
	} {
		t.Run(name, func(t *testing.T) {
			path := image(t, t.TempDir(), had)
			now, err := Grow(path, c.to, c.p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if now != c.want || int64(len(got)) != c.want {
				t.Errorf("it is said to have %d bytes and has %d, want %d", now, len(got), c.want)
			}
			if !bytes.Equal(got[:had], dirty(had)) {
				t.Error("the bytes that were there have changed")
			}
			if !bytes.Equal(got[had:], make([]byte, len(got)-had)) {
				t.Error("the new bytes are not zero")
			}
			var s unix.Stat_t
			if err := unix.Stat(path, &s); err != nil {
				t.Fatal(err)
			}
			if all := s.Blocks*512 >= c.want; c.to > had+512 && all != c.occupies {
				t.Errorf("it occupies %d bytes of %d", s.Blocks*512, c.want)
			}
		})
	}
}

func TestAFileThatCantGrowStaysAsItIs(t *testing.T) {
	const had = 1 << 20
	for name, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  func(path string) Error
	}{
		"a virtual machine has it": {
			func(t *testing.T, path string) {
				f, err := os.OpenFile(path, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				// As QEMU does: a lock for reading on one byte of many.
				lock := unix.Flock_t{Type: unix.F_RDLCK, Start: 201, Len: 1}
				if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
					t.Fatal(err)
				}
			},
			func(path string) Error {
				return Error{Reason: InUse, Message: path + " is in use by a virtual machine: it is grown once that has stopped"}
			},
		},
		"it is a link": {
			func(t *testing.T, path string) {
				if err := os.Rename(path, path+".other"); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path+".other", path); err != nil {
					t.Fatal(err)
				}
			},
			func(path string) Error {
				return Error{Reason: IO, Message: "open " + path + " to grow it: too many levels of symbolic links"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := image(t, t.TempDir(), had)
			c.spoil(t, path)
			_, err := Grow(path, 4<<20, Sparse)
			requireError(t, err, c.want(path))
			if info, err := os.Stat(path); err != nil || info.Size() != had {
				t.Errorf("the file has %d bytes by now: %v", info.Size(), err)
			}
		})
	}
	t.Run("it is not there", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "disk.img")
		_, err := Grow(path, had, Sparse)
		requireError(t, err, Error{Reason: Missing, Message: "open " + path + " to grow it: no such file or directory"})
		if _, err := os.Stat(path); err == nil {
			t.Error("a disk without its bytes was made")
		}
	})
	t.Run("its filesystem has no room", func(t *testing.T) {
		path := image(t, smallFilesystem(t, 4<<20), had)
		_, err := Grow(path, 64<<20, Sparse)
		var s unix.Statfs_t
		if err := unix.Statfs(filepath.Dir(path), &s); err != nil {
			t.Fatal(err)
		}
		requireError(t, err, Error{Reason: FilesystemTooSmall, Message: fmt.Sprintf(
			"the disk needs a file of %d bytes, and the volume's filesystem has room for %d: ask for a larger volume, which allows for the filesystem's own needs",
			64<<20, int64(s.Bavail)*s.Bsize+had)})
		if info, err := os.Stat(path); err != nil || info.Size() != had {
			t.Errorf("the file has %d bytes by now: %v", info.Size(), err)
		}
	})
}
