package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"vmdisk.io/vmdisk/lab/debian"
	"vmdisk.io/vmdisk/lab/lockfile"
)

// Options say what is measured.
type Options struct {
	// Out gets what is done, and the tables.
	Out io.Writer
	// Suite is one of Suites.
	Suite string
	// Only keeps the groups whose names match; nil keeps all.
	Only *regexp.Regexp
	// Rounds is how often each way runs; 0 leaves it to the suite.
	Rounds int
	// ImagesOnly makes the images and measures nothing.
	ImagesOnly bool
	// Vmdisk is the program to measure.
	Vmdisk string
	// CacheDir keeps the images. What is made of them goes there, too, for a while.
	CacheDir string
}

// version is the version of the images: raise it when one is made differently.
const version = 1

// Run measures and prints. It fails if a way fails or makes a wrong disk, but not if one is slow: the table of figures
// says which were reached.
func Run(ctx context.Context, o Options) error {
	groups, err := plan(o.Suite)
	if err != nil {
		return err
	}
	if groups = choose(groups, o.Only, o.Rounds); len(groups) == 0 {
		return fmt.Errorf("no group of the suite %s has a name that matches %s", o.Suite, o.Only)
	}
	if os.Geteuid() != 0 {
		return errors.New("the benchmark installs packages and builds a Debian tree: run it as root")
	}
	if err := debian.Ensure(ctx, o.Out, tools()); err != nil {
		return err
	}
	images := cache{dir: filepath.Join(o.CacheDir, fmt.Sprintf("bench-images-r%d", version)), out: o.Out}
	if err := os.MkdirAll(images.dir, 0o755); err != nil {
		return fmt.Errorf("make the images' directory: %w", err)
	}
	path := filepath.Join(o.CacheDir, "bench.lock")
	held, err := lockfile.Take(ctx, path, func() { fmt.Fprintf(o.Out, "waiting for another benchmark to end (it holds %s)\n", path) })
	if err != nil {
		return fmt.Errorf("keep other benchmarks away, which would be measured, too: %w", err)
	}
	defer held.Close() // which releases it; an error of that helps nobody
	b := &bench{Options: o, images: images, work: filepath.Join(o.CacheDir, "bench-work"), right: map[string]bool{}}
	return b.run(ctx, groups)
}

// tools are the programs that images are made with, and that do the work in other ways.
func tools() []debian.Tool {
	return []debian.Tool{
		{Program: "qemu-img", Package: "qemu-utils"},
		{Program: "curl", Package: "curl"},
		{Program: "xz", Package: "xz-utils"},
		{Program: "pigz", Package: "pigz"},
		{Program: "zstd", Package: "zstd"},
		{Program: "sfdisk", Package: "fdisk"},
		{Program: "mke2fs", Package: "e2fsprogs"},
	}
}

// bench is one Run.
type bench struct {
	Options
	images cache
	work   string // scratch files and targets
	server *server
	right  map[string]bool // the ways whose disk was compared, by name and image
}

func (b *bench) run(ctx context.Context, groups []group) (err error) {
	for _, g := range groups { // before the room is looked at: what is made takes most of it
		for _, w := range g.ways {
			if err := b.images.ensure(ctx, w.image); err != nil {
				return err
			}
		}
	}
	if b.ImagesOnly {
		return nil
	}
	if err := os.RemoveAll(b.work); err != nil { // what a killed run has left
		return err
	}
	if err := os.MkdirAll(b.work, 0o755); err != nil {
		return err
	}
	if err := checkRoom(b.work, groups); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	if b.server, err = serve(b.images.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.close()) }()
	b.warnIfBusy()
	began := time.Now()
	measured := results{}
	var failures []error
	for _, g := range groups {
		failures = append(failures, b.measure(ctx, g, measured))
		if ctx.Err() != nil {
			return errors.Join(append(failures, context.Cause(ctx))...)
		}
		printGroup(b.Out, g, measured)
	}
	printFigures(b.Out, measured)
	fmt.Fprintf(b.Out, "\nmeasured in %s\n", time.Since(began).Round(time.Second))
	return errors.Join(failures...)
}

// warnIfBusy says so where the machine has other things to do, since nothing that is measured then is worth much.
func (b *bench) warnIfBusy() {
	const idle = 1 // of processes that want to run, on the mean of the last minute
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return // not worth a failure
	}
	if load, busy := busier(string(text), idle); busy {
		fmt.Fprintf(b.Out, "This machine is busy (its load is %s): what follows is only worth something on one that isn't.\n", load)
	}
}

// busier reports whether the first of the means in loadavg, proc(5), is more than limit, and which it is.
func busier(loadavg string, limit float64) (mean string, busy bool) {
	mean, _, _ = strings.Cut(loadavg, " ")
	load, err := strconv.ParseFloat(mean, 64)
	return mean, err == nil && load > limit
}
