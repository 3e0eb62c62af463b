package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"vmdisk.io/vmdisk/lab/demo"
)

const (
	// diskBytes is the virtual size of the disk that most images hold.
	diskBytes int64 = 10 << 30
	// firstSector is where its filesystem begins, in sectors of 512 bytes.
	firstSector = 2048
	sectorBytes = 512
)

// packages make the disk's filesystem that of a machine which somebody works on: about 1 GB of programs, modules,
// libraries, texts and archives, which is what compressors see in practice.
func packages() []string {
	return []string{"linux-image-amd64", "gcc", "g++", "make", "python3", "git", "nginx", "perl", "vim", "man-db", "manpages-dev", "gdb"}
}

// makeDisk makes the raw disk at path, a sparse file: a GPT with one ext4 filesystem that holds a Debian tree. The disk
// isn't mounted for it.
func makeDisk(ctx context.Context, out io.Writer, path string) error {
	work := path + ".tree"
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	err := demo.WithTree(ctx, out, work, packages(), func(root string) error {
		if err := emptyDisk(path, diskBytes); err != nil {
			return err
		}
		length := diskBytes/sectorBytes - 2*firstSector // the backup table is behind it
		table := fmt.Sprintf("label: gpt\nstart=%d, size=%d, type=linux\n", firstSector, length)
		if err := tool(ctx, table, "sfdisk", "--quiet", path); err != nil {
			return err
		}
		return tool(ctx, "", "mke2fs", "-q", "-F", "-t", "ext4", "-d", root,
			"-E", fmt.Sprintf("offset=%d", firstSector*sectorBytes), path, fmt.Sprintf("%dk", length*sectorBytes>>10))
	})
	if err != nil {
		return err // the tree stays for the next try to clean: there may be mounts below it
	}
	return os.RemoveAll(work)
}

func emptyDisk(path string, bytes int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(bytes), f.Close())
}

// tool runs a program to its end.
func tool(ctx context.Context, input, program string, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Stdin = strings.NewReader(input)
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w; it said: %s", program, strings.Join(args, " "), err, lastLine(string(output)))
	}
	return nil
}

// growBytes is how much of the disk the growing disks hold, from its start: ext4 packs its files there.
const growBytes int64 = 1 << 30

// makeGrown makes a disk of so many bytes at path that holds the first growBytes of the disk from, and nothing else.
func makeGrown(ctx context.Context, from, path string, bytes int64) error {
	err := tool(ctx, "", "dd", "status=none", "if="+from, "of="+path, "bs=1M", fmt.Sprintf("count=%d", growBytes>>20), "conv=sparse")
	if err != nil {
		return err
	}
	return os.Truncate(path, bytes)
}

// checkRoom checks that there is room for the images and for what is made of them.
func checkRoom(dir string, groups []group) error {
	imports := 1
	for _, g := range groups {
		for _, w := range g.ways {
			imports = max(imports, w.imports)
		}
	}
	needed := int64(imports+2) * 2 << 30 // a target and a scratch file for each, of up to 1.3 GB
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look for free space in %s: %w", dir, err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < needed {
		return fmt.Errorf("%s has %d GiB free, and the benchmark needs %d GiB for targets and scratch files: make room, or set LAB_CACHE to a directory elsewhere",
			dir, free>>30, needed>>30)
	}
	return nil
}
