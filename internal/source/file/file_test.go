package file_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/file"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

func write(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFileIsASource(t *testing.T) {
	sourcetest.Suite(t, func(t *testing.T, content []byte) source.Source {
		s, err := file.New(write(t, content))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path string
		want source.Error
	}{
		"nothing":           {dir + "/none", source.Error{Reason: source.NotFound, Permanent: true, Message: "there is no file " + dir + "/none"}},
		"a directory":       {dir, source.Error{Reason: source.NotAFile, Permanent: true, Message: dir + " is a directory, not a file or a block device"}},
		"a pipe":            {pipe, source.Error{Reason: source.NotAFile, Permanent: true, Message: pipe + " is a pipe, not a file or a block device"}},
		"an endless device": {"/dev/zero", source.Error{Reason: source.NotAFile, Permanent: true, Message: "/dev/zero is a character device, not a file or a block device"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := file.New(test.path)
			requireError(t, err, test.want)
		})
	}
}

func TestAFileThatChangesIsNoticed(t *testing.T) {
	tests := map[string]func(path string) error{
		"it grows":        func(path string) error { return os.Truncate(path, 2000) },
		"it shrinks":      func(path string) error { return os.Truncate(path, 100) },
		"it is rewritten": func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1_700_000_000, 0)) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			path := write(t, make([]byte, 1000))
			s, err := file.New(path)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Describe(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, err := s.Open(t.Context(), 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(r)
			requireError(t, err, source.Error{Reason: source.Changed, Message: path + " was changed while it was being read: wait until whatever writes it is done, and try again"})
		})
	}
}

func requireError(t *testing.T, err error, want source.Error) {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(want, *e, cmpopts.IgnoreFields(source.Error{}, "Err")); diff != "" {
		t.Error(diff)
	}
}

func TestAFileThatIsCutShortWhileItIsReadSomewhereIsNoticed(t *testing.T) {
	path := write(t, make([]byte, 1<<20))
	s, err := file.New(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	if _, err := s.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<19); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{0, 1<<20 - 1} {
		_, err := source.ReaderAt{Context: t.Context(), Source: s}.ReadAt(make([]byte, 1), offset)
		requireError(t, err, source.Error{Reason: source.Changed, Message: path + " was changed while it was being read: wait until whatever writes it is done, and try again"})
	}
}
