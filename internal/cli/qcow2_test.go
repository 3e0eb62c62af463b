package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// requireImage requires that QEMU finds nothing wrong with a qcow2 image, and the disk in it, and that nothing else is in
// its directory.
func requireImage(t *testing.T, path string, disk []byte) {
	t.Helper()
	imagetest.Run(t, "qemu-img", "check", "-q", "-f", "qcow2", path)
	got, ok := imagetest.TryConvert(t, path, "qcow2")
	if !ok || !bytes.Equal(got, disk) {
		t.Errorf("QEMU reads %d bytes that are not the right %d", len(got), len(disk))
	}
	if err := os.Remove(path + ".raw"); err != nil {
		t.Fatal(err)
	}
	requireOnly(t, filepath.Dir(path), filepath.Base(path))
}

// requireOnly requires that a directory has these entries and no others.
func requireOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Error(diff)
	}
}

// TestAQCOW2ImageIsWrittenFromWhateverCanBeRead has sources that are read in the disk's order, and such that aren't.
func TestAQCOW2ImageIsWrittenFromWhateverCanBeRead(t *testing.T) {
	dir := t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{Compressed: true, Steps: imagetest.RandomWrites(50)})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(raw, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	vmdk, _ := imagetest.MakeAs(t, t.TempDir(), "vmdk", imagetest.Recipe{Options: "subformat=streamOptimized"})
	packed := filepath.Join(dir, "disk.qcow2.gz")
	out, err := exec.Command("gzip", "-c", path).Output()
	if err == nil {
		err = os.WriteFile(packed, out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	sum := func(b []byte) string { return fmt.Sprintf("--checksum=sha256:%x", sha256.Sum256(b)) }
	tests := map[string]struct {
		args []string
		disk []byte
	}{
		"a raw file":                  {[]string{raw}, disk},
		"a raw file and its checksum": {[]string{raw, sum(disk)}, disk},
		"a raw file, said to be one":  {[]string{raw, "--format=raw"}, disk},
		"a qcow2 file":                {[]string{path}, disk},
		"a vmdk file":                 {[]string{vmdk}, imagetest.Disk()},
		"a packed file":               {[]string{packed, sum(out)}, disk},
		"a URL":                       {[]string{server.URL + "/disk", sum(content)}, disk},
		"a pipe":                      {[]string{"-", sum(content)}, disk},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := filepath.Join(t.TempDir(), "disk.qcow2")
			got := runHere(t, content, append([]string{"convert", "-O", "qcow2", "--json", test.args[0], to}, test.args[1:]...)...)
			var r convertResult
			if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || got.Code != 0 {
				t.Fatalf("%+v", got)
			}
			requireImage(t, to, test.disk)
			if r.VirtualBytes != int64(len(test.disk)) || r.WrittenBytes == 0 || r.ReadBytes == 0 || r.Format == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestAQCOW2ImageGoesOverAPipe(t *testing.T) {
	dir := t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{})
	to := filepath.Join(t.TempDir(), "disk.qcow2")
	for name, source := range map[string]string{"a file": path, "a URL": sourcetest.Serve(t, sourcetest.Behaviour{Content: disk}).URL + "/disk"} {
		got := runHere(t, nil, "convert", "-O", "qcow2", source, "-")
		if got.Code != 0 || got.Stderr != "" {
			t.Fatalf("%s: %d %s", name, got.Code, got.Stderr)
		}
		if err := os.WriteFile(to, []byte(got.Stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		requireImage(t, to, disk)
	}
}

func TestWhatIsNoImageLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "cut.qcow2")
	if err := os.WriteFile(cut, content[:len(content)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := fmt.Sprintf("--checksum=sha256:%x", sha256.Sum256(disk))
	for name, test := range map[string]struct {
		args []string
		code int
		text string
	}{
		"a file that is cut off":       {[]string{cut}, exitRefused, "cut off"},
		"a pipe that is cut off":       {[]string{"-"}, exitRefused, "cut off"},
		"a file with another checksum": {[]string{path, wrong}, exitChecksum, "not the one"},
		"a pipe with another checksum": {[]string{"-", wrong}, exitChecksum, "not the one"},
		"no file":                      {[]string{filepath.Join(dir, "none")}, exitSourcePermanent, "there is no file"},
		"--resume":                     {[]string{path, "--resume=" + filepath.Join(dir, "resume")}, exitUsage, "raw disks"},
		"--verify":                     {[]string{path, "--verify"}, exitUsage, "raw disks"},
		"--target-zeroed":              {[]string{path, "--target-zeroed"}, exitUsage, "raw disks"},
		"--preallocation":              {[]string{path, "--preallocation=full"}, exitUsage, "raw disks"},
		"another format":               {[]string{path, "-O", "vmdk"}, exitUsage, "raw and qcow2"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			stdin := content[:len(content)/2]
			if len(test.args) > 1 {
				stdin = content
			}
			got := runHere(t, stdin, append([]string{"convert", "-O", "qcow2", test.args[0], filepath.Join(to, "disk.qcow2")}, test.args[1:]...)...)
			if got.Code != test.code || !strings.Contains(got.Stderr, test.text) {
				t.Errorf("%+v", got)
			}
			requireOnly(t, to)
		})
	}
	if got := runHere(t, nil, "convert", "-O", "qcow2", "--json", path, "-"); got.Code != exitUsage {
		t.Errorf("%+v", got)
	}
}
