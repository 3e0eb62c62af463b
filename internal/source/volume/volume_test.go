package volume_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/source/volume"
)

func write(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, o volume.Options) (source.Source, source.Description) {
	t.Helper()
	s, err := volume.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	d, err := s.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s, d
}

func TestADiskOnAVolumeIsASource(t *testing.T) {
	sourcetest.Suite(t, func(t *testing.T, content []byte) source.Source {
		s, err := volume.New(volume.Options{Path: write(t, content)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	t.Run("on a device that is longer", func(t *testing.T) {
		sourcetest.Suite(t, func(t *testing.T, content []byte) source.Source {
			behind := "not the disk's"
			if len(content) == 0 {
				behind = "" // a disk of no bytes has no length of its own
			}
			s, err := volume.New(volume.Options{Path: write(t, append(content[:len(content):len(content)], behind...)), SizeBytes: int64(len(content))})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
}

func TestWhatLiesBehindTheDiskIsNoneOfIt(t *testing.T) {
	s, d := open(t, volume.Options{Path: write(t, []byte("disk, and more")), SizeBytes: 4})
	if d.Length != 4 {
		t.Errorf("the disk has %d bytes", d.Length)
	}
	for _, length := range []int64{-1, 4, 100} {
		r, err := s.Open(t.Context(), 1, length)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); string(got) != "isk" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		_ = r.Close()
	}
	if n, hole, err := s.(image.HoleFinder).Hole(1); n != 3 || hole || err != nil {
		t.Errorf("a run of %d, hole %v, %v", n, hole, err)
	}
}

func TestADisksVersionIsThatOfItsFileAndOfWhatIsKnownBesides(t *testing.T) {
	path := write(t, []byte("disk"))
	_, alone := open(t, volume.Options{Path: path})
	_, told := open(t, volume.Options{Path: path, Version: "claim-1"})
	_, other := open(t, volume.Options{Path: path, Version: "claim-2"})
	if alone.Validator == "" || !strings.HasPrefix(told.Validator, "claim-1 ") || told.Validator == other.Validator {
		t.Errorf("%q, %q, %q", alone.Validator, told.Validator, other.Validator)
	}
}

func TestAVolumeWithoutTheDiskSaysSo(t *testing.T) {
	_, err := volume.New(volume.Options{Path: filepath.Join(t.TempDir(), "disk.img")})
	var e *source.Error
	if !errors.As(err, &e) || e.Reason != source.NotFound || !strings.HasPrefix(e.Message, "there is no disk on the source's volume (there is no file /") {
		t.Errorf("got %v", err)
	}
	s, err := volume.New(volume.Options{Path: write(t, []byte("disk")), SizeBytes: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // only read
	if _, err := s.Describe(t.Context()); !errors.As(err, &e) || !strings.HasSuffix(e.Message, "has 4 bytes, fewer than the 512 of the disk that should be on it") {
		t.Errorf("got %v", err)
	}
}
