//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vmdisk.io/vmdisk/lab/debian"
)

const (
	// diskSize and diskBytes are the size of the disk in the images, and of most disks.
	diskSize  = "512Mi"
	diskBytes = int64(512) << 20

	// largerBytes is the size of the disk in the image that is too large.
	largerBytes = diskBytes + 512

	// longBytes is the size of the image that takes long.
	longBytes = 2 * diskBytes

	// recipe changes when what makeImages makes does.
	recipe = "6"

	// stolen is what an image that names another file may not bring into a disk.
	stolen = "the content of another file"
)

// The images, all made by qemu-img.
const (
	qcow2File     = "disk.qcow2"    // compressed, as cloud images are
	rawFile       = "disk.raw"      // the same disk, as qemu-img converts it: what a volume must hold in the end
	largerFile    = "larger.qcow2"  // one sector more than the disks here
	backingFile   = "backing.qcow2" // its backing file is otherFile on the server
	passwdFile    = "passwd.qcow2"  // its backing file is /etc/passwd
	otherFile     = "other.raw"     // read by nobody
	longFile      = "long.raw"      // rawFile, and zeros behind it that are served all the same
	lateFile      = "late.qcow2"    // the same disk, and what says where its data belongs lies behind some of the data
	opticalFile   = "cd.iso"        // an ISO 9660 filesystem, made by xorriso, with other.raw on it
	referenceFile = "disk.sha256"   // of rawFile
)

// imagesDir is where the images are, on the host and thereby on both nodes.
func imagesDir() string {
	root := os.Getenv("LAB_CACHE")
	if root == "" {
		root = "/var/cache/vmdisk-lab"
	}
	return filepath.Join(root, "e2e-"+recipe)
}

// makeImages makes the images, unless they are there.
func makeImages(ctx context.Context) error {
	dir := imagesDir()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temporary := dir + ".new"
	if err := errors.Join(os.RemoveAll(temporary), os.MkdirAll(temporary, 0o755)); err != nil {
		return err
	}
	if err := writeDisk(filepath.Join(temporary, "written")); err != nil {
		return err
	}
	size := fmt.Sprint(diskBytes)
	for _, args := range [][]string{
		{"convert", "-c", "-f", "raw", "-O", "qcow2", "written", qcow2File},
		{"convert", "-O", "raw", qcow2File, rawFile},
		{"convert", "-O", "raw", qcow2File, longFile},
		{"resize", "-q", "-f", "raw", longFile, fmt.Sprint(longBytes)},
		{"create", "-q", "-f", "qcow2", "-o", "cluster_size=2048,preallocation=full", lateFile, "64M"},
		{"resize", "-q", lateFile, size}, // which moves the table
		{"convert", "-n", "-f", "raw", "-O", "qcow2", rawFile, lateFile},
		{"create", "-q", "-f", "qcow2", largerFile, fmt.Sprint(largerBytes)},
		{"create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", otherFile, backingFile, size},
		{"create", "-q", "-u", "-f", "qcow2", "-F", "raw", "-b", "/etc/passwd", passwdFile, size},
	} {
		cmd := exec.CommandContext(ctx, "qemu-img", args...)
		cmd.Dir = temporary
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("qemu-img %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	sum, err := hashFile(filepath.Join(temporary, rawFile), diskBytes)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temporary, otherFile), []byte(strings.Repeat(stolen, 1000)), 0o644); err != nil {
		return err
	}
	if err := makeOptical(ctx, temporary); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(temporary, referenceFile), []byte(sum), 0o644),
		os.Remove(filepath.Join(temporary, "written")),
		os.Rename(temporary, dir))
}

// makeOptical makes an installation medium, as they are served.
func makeOptical(ctx context.Context, dir string) error {
	if err := debian.Ensure(ctx, os.Stderr, []debian.Tool{{Program: "xorriso", Package: "xorriso"}}); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "xorriso", "-as", "mkisofs", "-quiet", "-V", "VMDISK", "-J", "-r", "-o", opticalFile, otherFile)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("xorriso: %w: %s", err, out)
	}
	return nil
}

// writeDisk makes the disk that the images hold: data that can't be compressed, data that can, written zeros, and holes of
// all kinds between them, at odd places. It is the same at each call.
func writeDisk(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close() // Sync below sees what was lost
	if err := f.Truncate(diskBytes); err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte([]byte("vmdisk's scenarios, always alike")))
	random := rand.New(noise)
	for offset := int64(0); offset < diskBytes; {
		piece := make([]byte, 4<<10*(1+random.Int64N(256)))
		piece = piece[:min(int64(len(piece)), diskBytes-offset)]
		switch random.IntN(3) {
		case 0:
			noise.Read(piece)
		case 1:
			copy(piece, strings.Repeat("as compressible as text is. ", len(piece)/20))
		}
		if _, err := f.WriteAt(piece, offset); err != nil {
			return err
		}
		offset += int64(len(piece)) + 512*random.Int64N(8<<10)
	}
	// A boot sector's jump and signature: a raw image that begins with text is taken for text.
	_, startErr := f.WriteAt([]byte{0xEB, 0x63, 0x90}, 0)
	_, signErr := f.WriteAt([]byte{0x55, 0xAA}, 510)
	_, endErr := f.WriteAt([]byte("the end of the disk"), diskBytes-512)
	return errors.Join(startErr, signErr, endErr, f.Sync())
}

// hashFile is the SHA-256 of the first bytes of a file, which must have that many.
func hashFile(path string, bytes int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.CopyN(hash, f, bytes); err != nil {
		return "", fmt.Errorf("read %d bytes of %s: %w", bytes, path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// reference is the SHA-256 of the disk as qemu-img converts it.
func reference(t *testing.T) string {
	t.Helper()
	sum, err := os.ReadFile(filepath.Join(imagesDir(), referenceFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(sum)
}

// imageSum is the SHA-256 of an image as it is served.
func imageSum(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Stat(filepath.Join(imagesDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := hashFile(filepath.Join(imagesDir(), name), info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// allocated is how many bytes a file really occupies.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	const blockBytes = 512 // stat(2) counts in these, whatever the filesystem
	return info.Sys().(*syscall.Stat_t).Blocks * blockBytes
}
