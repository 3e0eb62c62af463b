package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The images, by their files' names.
const (
	disk        = "disk.raw"
	qcow2Zlib   = "disk-zlib.qcow2"
	qcow2Zstd   = "disk-zstd.qcow2"
	qcow2Plain  = "disk-plain.qcow2"
	vmdkStream  = "disk-stream.vmdk"
	vmdkSparse  = "disk-sparse.vmdk"
	vhdxDynamic = "disk.vhdx"
	vhdDynamic  = "disk.vhd"
	vdiDynamic  = "disk.vdi"
	rawGzip     = "disk.raw.gz"
	rawXz       = "disk.raw.xz"
	rawXzOne    = "disk-one-block.raw.xz"
	rawZstd     = "disk.raw.zst"
	grow1Disk   = "grow-1g.raw"
	grow10Disk  = "grow-10g.raw"
	grow100Disk = "grow-100g.raw"
	grow1       = "grow-1g.qcow2"
	grow10      = "grow-10g.qcow2"
	grow100     = "grow-100g.qcow2"
)

// recipe is how one image is made: by do, of the file from, which is the disk that it holds. from is "" for the first.
type recipe struct {
	from string
	do   func(ctx context.Context, from, to string) error
}

// recipes has one for each image but the disk itself.
func recipes() map[string]recipe {
	grown := func(bytes int64) recipe {
		return recipe{disk, func(ctx context.Context, from, to string) error { return makeGrown(ctx, from, to, bytes) }}
	}
	zlib := []string{"-O", "qcow2", "-c", "-o", "compression_type=zlib"}
	return map[string]recipe{
		qcow2Zlib:   {disk, qemuImg(zlib...)},
		qcow2Zstd:   {disk, qemuImg("-O", "qcow2", "-c", "-o", "compression_type=zstd")},
		qcow2Plain:  {disk, qemuImg("-O", "qcow2")},
		vmdkStream:  {disk, qemuImg("-O", "vmdk", "-o", "subformat=streamOptimized")},
		vmdkSparse:  {disk, qemuImg("-O", "vmdk", "-o", "subformat=monolithicSparse")},
		vhdxDynamic: {disk, qemuImg("-O", "vhdx", "-o", "subformat=dynamic")},
		vhdDynamic:  {disk, qemuImg("-O", "vpc", "-o", "subformat=dynamic,force_size=on")}, // else the disk's size is rounded
		vdiDynamic:  {disk, qemuImg("-O", "vdi")},
		rawGzip:     {disk, packer("pigz", "-6", "-c")},
		rawXz:       {disk, packer("xz", "-6", "-T2", "-c")},
		rawXzOne:    {disk, packer("xz", "-3", "-T1", "-c")}, // a higher level takes minutes more to make, and no more to read
		rawZstd:     {disk, packer("zstd", "-q", "-3", "-c")},
		grow1Disk:   grown(1 << 30),
		grow10Disk:  grown(10 << 30),
		grow100Disk: grown(100 << 30),
		grow1:       {grow1Disk, qemuImg(zlib...)},
		grow10:      {grow10Disk, qemuImg(zlib...)},
		grow100:     {grow100Disk, qemuImg(zlib...)},
	}
}

// content is the raw disk that an image holds.
func content(image string) string {
	if filepath.Ext(image) == ".raw" {
		return image
	}
	return recipes()[image].from
}

func qemuImg(options ...string) func(ctx context.Context, from, to string) error {
	return func(ctx context.Context, from, to string) error {
		args := append([]string{"convert", "-f", "raw"}, options...)
		return tool(ctx, "", "qemu-img", append(args, from, to)...)
	}
}

// packer is a program that prints what it makes of a file.
func packer(program string, args ...string) func(ctx context.Context, from, to string) error {
	return func(ctx context.Context, from, to string) error {
		script := append([]string{"-c", `to=$1; shift; exec "$@" > "$to"`, "sh", to, program}, args...)
		return tool(ctx, "", "sh", append(script, from)...)
	}
}

// cache is the directory of the images. They are made once, and never changed.
type cache struct {
	dir string
	out io.Writer
}

func (c cache) path(image string) string { return filepath.Join(c.dir, image) }

// ensure has an image, and what it is made of.
func (c cache) ensure(ctx context.Context, image string) error {
	path := c.path(image)
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r := recipes()[image]
	if r.from != "" {
		if err := c.ensure(ctx, r.from); err != nil {
			return err
		}
	}
	began := time.Now()
	partial := path + ".partial" // which a killed one may have left
	fmt.Fprintf(c.out, "making %s (once)\n", path)
	if r.from == "" {
		err = makeDisk(ctx, c.out, partial)
	} else {
		err = r.do(ctx, c.path(r.from), partial)
	}
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the image %s: %w", image, err), os.RemoveAll(partial))
	}
	fmt.Fprintf(c.out, "made %s in %s\n", path, time.Since(began).Round(time.Second))
	return nil
}

// warm reads an image, so that no run finds it only on the disk and another one in memory.
func (c cache) warm(image string) error {
	f, err := os.Open(c.path(image))
	if err != nil {
		return fmt.Errorf("read an image: %w", err)
	}
	_, err = io.Copy(io.Discard, f)
	return errors.Join(err, f.Close())
}
