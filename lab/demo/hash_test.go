package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sparseFile is a file with data, a hole larger than a chunk, data that crosses a chunk, and a hole at its end.
func sparseFile(t *testing.T) (path string, content []byte) {
	t.Helper()
	content = make([]byte, 5*hashChunk+4097)
	copy(content[4096:], bytes.Repeat([]byte("first "), 2000))
	copy(content[3*hashChunk-5000:], bytes.Repeat([]byte("second"), 2000))
	path = filepath.Join(t.TempDir(), "disk.raw")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, part := range [][2]int64{{4096, 20480}, {3*hashChunk - 5000, 3*hashChunk + 10000}} {
		if _, err := file.WriteAt(content[part[0]:part[1]], part[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Truncate(int64(len(content))); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestHashDiskCountsHolesAsZeros(t *testing.T) {
	path, content := sparseFile(t)
	for name, size := range map[string]int{
		"the whole file":                   len(content),
		"a part that ends in a hole":       2*hashChunk + 1,
		"a part that ends in data":         3*hashChunk + 1,
		"a part that ends before all data": 100,
	} {
		t.Run(name, func(t *testing.T) {
			want := sha256.Sum256(content[:size])
			got, err := HashDisk(t.Context(), path, int64(size))
			if err != nil {
				t.Fatal(err)
			}
			if got != hex.EncodeToString(want[:]) {
				t.Errorf("got %s, want %x", got, want)
			}
		})
	}
}

func TestHashDiskReadsALoopDeviceThroughItsFile(t *testing.T) {
	path, content := sparseFile(t)
	sector := int64(len(content)) / sectorSize * sectorSize
	if err := os.Truncate(path, sector); err != nil {
		t.Fatal(err)
	}
	device, err := command{name: "losetup", args: []string{"--find", "--show", path}}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	device = strings.TrimSpace(device)
	t.Cleanup(func() {
		if out, err := (command{name: "losetup", args: []string{"--detach", device}}).run(context.WithoutCancel(t.Context())); err != nil {
			t.Error(out, err)
		}
	})
	want := sha256.Sum256(content[:sector])
	got, err := HashDisk(t.Context(), device, sector)
	if err != nil {
		t.Fatal(err)
	}
	if got != hex.EncodeToString(want[:]) {
		t.Errorf("got %s, want %x", got, want)
	}
}

func TestHashDiskRefusesADiskThatIsTooShort(t *testing.T) {
	path, content := sparseFile(t)
	_, err := HashDisk(t.Context(), path, int64(len(content))+1)
	if err == nil || !strings.Contains(err.Error(), "it has only") {
		t.Errorf("got %v", err)
	}
}
