package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// entry is what a test compares of one file in an image.
type entry struct {
	Name    string
	Mode    int64
	Content string
}

func TestBuild(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []File{
		{Path: "/usr/bin/vmdisk", Source: source, Mode: 0o755},
		{Path: "/etc/motd", Content: []byte("hello")},
		{Path: "/usr/bin/another", Content: []byte("x"), Mode: 0o700},
	}
	config := Config{Entrypoint: []string{"/usr/bin/vmdisk"}, Cmd: []string{"worker"}, User: "107:107", Env: []string{"A=b"}}
	first, second := filepath.Join(dir, "1.tar"), filepath.Join(dir, "2.tar")
	id, err := Build(first, "example.org/vmdisk:test", files, config)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Build(second, "example.org/vmdisk:test", files, config)
	if err != nil {
		t.Fatal(err)
	}
	if id != again || !strings.HasPrefix(id, "sha256:") {
		t.Errorf("the same input gave %s and %s", id, again)
	}
	if !sameBytes(t, first, second) {
		t.Error("the same input gave two different archives")
	}

	image, err := tarball.ImageFromPath(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{Entrypoint: config.Entrypoint, Cmd: config.Cmd, User: "107:107", Env: config.Env}
	if diff := cmp.Diff(want, got.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	wantEntries := []entry{
		{"etc", 0o755, ""},
		{"etc/motd", 0o644, "hello"},
		{"usr", 0o755, ""},
		{"usr/bin", 0o755, ""},
		{"usr/bin/another", 0o700, "x"},
		{"usr/bin/vmdisk", 0o755, "a program"},
	}
	if diff := cmp.Diff(wantEntries, entries(t, image)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestBuildRefuses(t *testing.T) {
	tests := map[string]struct {
		ref   string
		files []File
		says  string
	}{
		"a name that is none":         {ref: "UPPER CASE", says: "name"},
		"a relative path":             {ref: "a:b", files: []File{{Path: "bin/x"}}, says: "not absolute"},
		"a path that climbs":          {ref: "a:b", files: []File{{Path: "/bin/../x"}}, says: "not absolute and clean"},
		"the same path twice":         {ref: "a:b", files: []File{{Path: "/x"}, {Path: "/x"}}, says: "given twice"},
		"a source that doesn't exist": {ref: "a:b", files: []File{{Path: "/x", Source: "/no/such/file"}}, says: "/no/such/file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.tar")
			_, err := Build(out, test.ref, test.files, Config{})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error that says %q", err, test.says)
			}
			if _, err := os.Stat(out); !os.IsNotExist(err) {
				t.Errorf("an archive was left behind: %v", err)
			}
		})
	}
}

func TestVMDiskRunsAsTheUserThatVirtualMachinesRunAs(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "vmdisk")
	if err := os.WriteFile(program, []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "vmdisk.tar")
	if _, err := VMDisk(out, "vmdisk:test", program); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(out, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1.Config{Entrypoint: []string{"/usr/bin/vmdisk"}, User: "107:107"}, got.Config); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func entries(t *testing.T, image v1.Image) []entry {
	t.Helper()
	layers := mutate.Extract(image)
	defer layers.Close()
	var found []entry
	for r := tar.NewReader(layers); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, entry{strings.TrimSuffix(header.Name, "/"), header.Mode, string(content)})
	}
}

func sameBytes(t *testing.T, a, b string) bool {
	t.Helper()
	first, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(first) == string(second)
}
