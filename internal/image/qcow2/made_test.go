package qcow2

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// TestRefusesWhatQEMUMakes has images of QEMU's that can't be read by themselves.
func TestRefusesWhatQEMUMakes(t *testing.T) {
	const secret = "--object=secret,id=key,data=swordfish"
	tests := map[string]struct {
		arguments []string // of qemu-img create
		want      image.Reason
		names     string // is in the message
	}{
		"a backing file":         {[]string{"-b", "base.raw", "-F", "raw"}, image.BackingFile, `"base.raw"`},
		"a data file":            {[]string{"-o", "data_file=data.raw"}, image.DataFile, `"data.raw"`},
		"a raw data file":        {[]string{"-o", "data_file=data.raw,data_file_raw=on"}, image.DataFile, `"data.raw"`},
		"encrypted with LUKS":    {[]string{secret, "-o", "encrypt.format=luks,encrypt.key-secret=key,encrypt.iter-time=10"}, image.Encrypted, "LUKS"},
		"encrypted with AES":     {[]string{secret, "-o", "encrypt.format=aes,encrypt.key-secret=key"}, image.Encrypted, "AES"},
		"a backing file, zstd":   {[]string{"-b", "base.raw", "-F", "raw", "-o", "compression_type=zstd"}, image.BackingFile, `"base.raw"`},
		"a backing file, and v2": {[]string{"-b", "base.raw", "-F", "raw", "-o", "compat=0.10"}, image.BackingFile, `"base.raw"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("base.raw", make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			imagetest.Run(t, "qemu-img", append(append([]string{"create", "-q", "-f", "qcow2"}, test.arguments...), "image", "1M")...)
			requireRefusedAs(t, "image", test.want, test.names)
		})
	}
}

// requireRefusedAs requires that an image is refused for a reason, with a name in the message.
func requireRefusedAs(t *testing.T, path string, want image.Reason, name string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var refused *image.Refused
	if _, err = imagetest.Read(Open, content, image.Limits{}, 1<<20); !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	if refused.Reason != want || !strings.Contains(refused.Message, name) {
		t.Errorf("%s: %s", refused.Reason, refused.Message)
	}
	imagetest.RequireRefused(t, content, *refused, 1<<20, Open, waysForward())
}

// TestRefusesWhatQEMUHasMarkedAsCorrupt lets QEMU find out that data lies where the L1 table is.
func TestRefusesWhatQEMUHasMarkedAsCorrupt(t *testing.T) {
	path, _ := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Empty: true, Steps: []string{"io write -P 1 0 64k"}})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	be := binary.BigEndian
	l1 := be.Uint64(content[40:])
	l2 := be.Uint64(content[l1:]) & offsetMask
	be.PutUint64(content[l2:], l1|1<<63)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("qemu-io", "-f", "qcow2", "-c", "write -P 2 0 64k", path).CombinedOutput() // which fails, or not
	requireRefusedAs(t, path, image.CorruptImage, "marked as corrupt")
	if t.Failed() {
		t.Logf("%s, %v", out, err)
	}
}

// TestReadsWhatWasNotClosed has the dirty bit, as a machine that was killed leaves it: refcounts may be wrong, and nothing
// else.
func TestReadsWhatWasNotClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	imagetest.Run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "lazy_refcounts=on", path, "1M")
	err := exec.Command("qemu-io", "-f", "qcow2", "-c", "write -P 7 64k 64k", "-c", "flush", "-c", "abort", path).Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("qemu-io was to kill itself: %v", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(uint64(featureDirty), binary.BigEndian.Uint64(content[72:])); diff != "" {
		t.Fatal("features: ", diff)
	}
	disk := make([]byte, 1<<20)
	for i := range 64 << 10 {
		disk[64<<10+i] = 7
	}
	imagetest.RequireReads(t, content, disk, Open, waysForward())
}
