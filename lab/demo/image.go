package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"vmdisk.io/vmdisk/lab/debian"
	"vmdisk.io/vmdisk/lab/lockfile"
	"vmdisk.io/vmdisk/lab/mounts"
)

const (
	// ImageSize is the image's virtual size in bytes.
	ImageSize int64 = 20 << 30
	// DefaultCache is the cache directory where LAB_CACHE names no other.
	DefaultCache = "/var/cache/vmdisk-lab"
	// recipe is the version of the image's recipe: raise it with every change to what the image holds, so that nobody
	// goes on with an older cached one.
	recipe = 5
	// imageName is the image's file, and the last part of its URL.
	imageName = "debian-cloud.qcow2"
)

// Built is an image in the cache. All its files exist, and none is ever changed.
type Built struct {
	// Dir holds what a server may publish: the image and its SHA256SUMS.
	Dir string
	// Qcow2 is the image: qcow2 version 3, zlib-compressed as Debian's own cloud images are.
	Qcow2 string
	// Qcow2SHA256 is the hex sum of Qcow2's bytes.
	Qcow2SHA256 string
	// Raw is qemu-img convert's raw output for Qcow2, a sparse file: what a volume must be equal to.
	Raw string
	// RawSHA256 is the hex sum of all ImageSize bytes of Raw.
	RawSHA256 string
}

// imageTools are what builds the image. grub-pc-bin has no program of its own: a file of it is named.
func imageTools() []debian.Tool {
	return []debian.Tool{
		{Program: "mmdebstrap", Package: "mmdebstrap"},
		{Program: "grub-mkimage", Package: "grub-common"},
		{Program: grubDir + "/boot.img", Package: "grub-pc-bin"},
		{Program: "sfdisk", Package: "fdisk"},
		{Program: "mke2fs", Package: "e2fsprogs"},
		{Program: "qemu-img", Package: "qemu-utils"},
	}
}

// CacheDir is LAB_CACHE or DefaultCache.
func CacheDir() string {
	if dir := os.Getenv("LAB_CACHE"); dir != "" {
		return dir
	}
	return DefaultCache
}

// Image returns a bootable Debian cloud image, which it builds on the first call (about two minutes) and takes from
// cacheDir later. It installs the programs that it needs, tells on out what it does, and must run as root on Debian.
// Concurrent calls, also of other processes, wait for each other.
func Image(ctx context.Context, cacheDir string, out io.Writer) (Built, error) {
	sources, err := readAptSources("/etc")
	if err != nil {
		return Built{}, err
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return Built{}, fmt.Errorf("make the cache directory: %w", err)
	}
	name := fmt.Sprintf("image-%s-r%d", sources.codename, recipe)
	path := filepath.Join(cacheDir, name+".lock")
	held, err := lockfile.Take(ctx, path, func() {
		fmt.Fprintf(out, "waiting for another build of the image to end (it holds %s)\n", path)
	})
	if err != nil {
		return Built{}, fmt.Errorf("keep other builds of the image away: %w", err)
	}
	defer held.Close() // which releases it; an error of that helps nobody
	dir := filepath.Join(cacheDir, name)
	if _, err := os.Stat(dir); err == nil {
		return cached(dir)
	}
	if runtime.GOARCH != "amd64" || os.Geteuid() != 0 {
		return Built{}, errors.New("the demo's image is built by root on an amd64 machine, and this isn't one: " +
			"become root, or bring a cache directory that has the image and name it in LAB_CACHE")
	}
	if err := debian.Ensure(ctx, out, imageTools()); err != nil {
		return Built{}, err
	}
	if sources.options, err = readAptOptions(ctx); err != nil {
		return Built{}, err
	}
	start := time.Now()
	fmt.Fprintf(out, "building a Debian %s cloud image of 20 GiB (once; it is kept in %s)\n", sources.codename, dir)
	if err := build(ctx, out, dir, sources, held); err != nil {
		return Built{}, fmt.Errorf("build the Debian image: %w", err)
	}
	fmt.Fprintf(out, "built the image in %s\n", time.Since(start).Round(time.Second))
	return cached(dir)
}

// build fills a directory beside dir and renames it to dir when it is complete: a killed build leaves no half image.
func build(ctx context.Context, out io.Writer, dir string, sources aptSources, held *os.File) (err error) {
	partial := dir + ".partial"
	if err := removeTree(partial); err != nil {
		return err
	}
	defer func() {
		if cleanErr := removeTree(partial); err == nil {
			err = cleanErr
		}
	}()
	public, work := filepath.Join(partial, "keep", "public"), filepath.Join(partial, "work")
	for _, d := range []string{public, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	root, disk := filepath.Join(work, "root"), filepath.Join(work, "disk.raw")
	qcow2, raw := filepath.Join(public, imageName), filepath.Join(partial, "keep", "disk.raw")
	var qcow2Sum, rawSum string
	steps := []struct {
		name string
		do   func() error
	}{
		{"install the packages with mmdebstrap", func() error { return buildRoot(ctx, root, work, sources, held) }},
		{"make the disk", func() error { return buildDisk(ctx, disk, root, work, ImageSize) }},
		{"compress it to qcow2", func() error { return compress(ctx, disk, qcow2) }},
		{"convert it to raw with qemu-img, for comparing", func() error { return ConvertRaw(ctx, qcow2, raw) }},
		{"hash both", func() error {
			if qcow2Sum, err = HashDisk(ctx, qcow2, 0); err == nil {
				rawSum, err = HashDisk(ctx, raw, ImageSize)
			}
			return err
		}},
		{"write the sums", func() error {
			return errors.Join(
				os.WriteFile(filepath.Join(public, "SHA256SUMS"), []byte(qcow2Sum+"  "+imageName+"\n"), 0o644),
				os.WriteFile(raw+".sha256", []byte(rawSum+"  disk.raw\n"), 0o644))
		}},
	}
	for _, step := range steps {
		start := time.Now()
		fmt.Fprintf(out, "  %s … ", step.name)
		if err := step.do(); err != nil {
			fmt.Fprintln(out, "no")
			return err
		}
		fmt.Fprintln(out, time.Since(start).Round(100*time.Millisecond))
	}
	return os.Rename(filepath.Join(partial, "keep"), dir)
}

// cached returns the image in dir, which exists. One without its sums is damaged: it is reported, not built over.
func cached(dir string) (Built, error) {
	b := Built{Dir: filepath.Join(dir, "public"), Raw: filepath.Join(dir, "disk.raw")}
	b.Qcow2 = filepath.Join(b.Dir, imageName)
	var err error
	if b.Qcow2SHA256, err = readSum(filepath.Join(b.Dir, "SHA256SUMS")); err != nil {
		return Built{}, fmt.Errorf("read the cached image in %s (delete that directory to build it again): %w", dir, err)
	}
	if b.RawSHA256, err = readSum(b.Raw + ".sha256"); err != nil {
		return Built{}, fmt.Errorf("read the cached image in %s (delete that directory to build it again): %w", dir, err)
	}
	return b, nil
}

// readSum returns the first sum of a file in sha256sum's format.
func readSum(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum, _, ok := strings.Cut(string(text), "  ")
	if !ok || len(sum) != 64 {
		return "", fmt.Errorf("%s: no sha256 sum in it", path)
	}
	return sum, nil
}

// compress makes the published image: zlib clusters in the order of the disk.
func compress(ctx context.Context, disk, qcow2 string) error {
	_, err := command{name: "qemu-img", args: []string{"convert", "-f", "raw", "-O", "qcow2", "-c",
		"-o", "compression_type=zlib,compat=1.1", disk, qcow2}}.run(ctx)
	return err
}

// ConvertRaw has qemu-img write qcow2's content to the sparse file raw: the reference that vmdisk is compared with.
func ConvertRaw(ctx context.Context, qcow2, raw string) error {
	if _, err := (command{name: "qemu-img", args: []string{"convert", "-f", "qcow2", "-O", "raw", qcow2, raw}}).run(ctx); err != nil {
		return fmt.Errorf("convert %s with qemu-img: %w", qcow2, err)
	}
	return nil
}

// removeTree deletes dir and whatever a killed mmdebstrap left mounted below it: deleting through a bind mount of the
// machine's /dev or /proc would be a disaster.
func removeTree(dir string) error {
	if err := mounts.Free(dir); err != nil {
		return fmt.Errorf("unmount what a killed build left: %w", err)
	}
	return os.RemoveAll(dir)
}
