package demo

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCachedImage(t *testing.T) {
	sum := strings.Repeat("0123456789abcdef", 4)
	complete := map[string]string{
		"public/SHA256SUMS": sum + "  " + imageName + "\n", "disk.raw.sha256": sum + "  disk.raw\n",
	}
	tests := map[string]struct {
		files map[string]string
		ok    bool
	}{
		"is found when its sums are there":     {files: complete, ok: true},
		"without a sum is damaged":             {files: map[string]string{"public/SHA256SUMS": complete["public/SHA256SUMS"]}},
		"with something else for a sum is not": {files: map[string]string{"public/SHA256SUMS": "", "disk.raw.sha256": ""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, text := range test.files {
				path = filepath.Join(dir, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := cached(dir)
			if !test.ok {
				if err == nil || !strings.Contains(err.Error(), "delete that directory") {
					t.Fatalf("got %v: a damaged directory must be reported, with what to do", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Built{Dir: filepath.Join(dir, "public"), Qcow2: filepath.Join(dir, "public", imageName), Qcow2SHA256: sum,
				Raw: filepath.Join(dir, "disk.raw"), RawSHA256: sum}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlaceGrub(t *testing.T) {
	images := func() (boot, core []byte) {
		boot, core = make([]byte, sectorSize), make([]byte, 3*sectorSize)
		binary.LittleEndian.PutUint64(boot[bootKernelSector:], 1)
		binary.LittleEndian.PutUint16(core[coreBlockLength:], 2)
		return boot, core
	}
	boot, core := images()
	if err := placeGrub(boot, core); err != nil {
		t.Fatal(err)
	}
	got := []uint64{binary.LittleEndian.Uint64(boot[0x5c:]), binary.LittleEndian.Uint64(core[500:])}
	if diff := cmp.Diff([]uint64{2048, 2049}, got); diff != "" {
		t.Error(diff)
	}
	refused := map[string]func(boot, core []byte) ([]byte, []byte){
		"a core image that counts its sectors otherwise": func(boot, core []byte) ([]byte, []byte) { return boot, core[:2*sectorSize] },
		"a boot sector that isn't one":                   func(boot, core []byte) ([]byte, []byte) { return boot[1:], core },
		"a core image that is larger than its partition": func(boot, _ []byte) ([]byte, []byte) {
			return boot, make([]byte, (biosLength+1)*sectorSize)
		},
		"a boot sector that points elsewhere": func(boot, core []byte) ([]byte, []byte) {
			boot[bootKernelSector] = 9
			return boot, core
		},
	}
	for name, change := range refused {
		t.Run(name, func(t *testing.T) {
			if err := placeGrub(change(images())); err == nil {
				t.Error("it was taken")
			}
		})
	}
}
