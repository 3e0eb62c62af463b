package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// results are the runs of each way, by the name of its group and its own.
type results map[key][]usage

type key struct{ group, way string }

// measure runs the ways of a group, round by round, so that what else the machine does meets all of them. A way that
// fails is left out from then on.
func (b *bench) measure(ctx context.Context, g group, into results) error {
	for _, w := range g.ways {
		if err := b.images.warm(w.image); err != nil {
			return err
		}
	}
	failed := map[string]error{}
	for round := range g.rounds {
		for _, w := range g.ways {
			if failed[w.name] != nil {
				continue
			}
			u, err := b.once(ctx, w)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				failed[w.name] = fmt.Errorf("%s: %s: %w", g.name, w.name, err)
				fmt.Fprintln(b.Out, "failed:", failed[w.name])
				continue
			}
			k := key{g.name, w.name}
			into[k] = append(into[k], u)
			fmt.Fprintf(b.Out, "%s, round %d of %d: %s: %.2f s\n", g.name, round+1, g.rounds, w.name, u.wall.Seconds())
		}
	}
	var all []error
	for _, w := range g.ways {
		all = append(all, failed[w.name])
	}
	return errors.Join(all...)
}

// once fills as many disks as the way says, compares one where that wasn't done yet, and removes them.
func (b *bench) once(ctx context.Context, w way) (usage, error) {
	before := b.server.set(w.network)
	imports := max(1, w.imports)
	runs, errs := make([]usage, imports), make([]error, imports)
	all := make([]places, imports)
	lab, err := os.Executable()
	if err != nil {
		return usage{}, fmt.Errorf("find this program, which unpacks as CDI does: %w", err)
	}
	for i := range all {
		dir := filepath.Join(b.work, strconv.Itoa(i)) // of its own for each, so that whatever is left there goes
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return usage{}, err
		}
		all[i] = places{
			vmdisk: b.Vmdisk, lab: lab, image: b.images.path(w.image), url: b.server.url + "/" + w.image,
			scratch: filepath.Join(dir, "scratch"), target: filepath.Join(dir, "target"),
		}
	}
	began := time.Now()
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() { runs[i], errs[i] = run(ctx, w.steps(all[i])) })
	}
	running.Wait()
	wall := time.Since(began)
	served := b.server.set(network{}) - before
	err = errors.Join(errs...)
	for i := range all {
		if err == nil {
			err = runs[i].look(all[i])
		}
	}
	if err == nil {
		err = b.check(ctx, w, all[0].target)
	}
	for i := range all {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(all[i].target)))
	}
	u := together(runs)
	u.wall, u.served = wall, served
	return u, err
}

// check compares a target with the disk that the image holds, byte by byte, the first time that a way has made one.
func (b *bench) check(ctx context.Context, w way, target string) error {
	name := w.name + ", " + w.image
	if b.right[name] {
		return nil
	}
	want := b.images.path(content(w.image))
	a, err := os.Stat(want)
	if err != nil {
		return err
	}
	t, err := os.Stat(target)
	if err != nil {
		return err
	}
	if a.Size() != t.Size() {
		return fmt.Errorf("the disk that it made has %d bytes, and should have %d", t.Size(), a.Size())
	}
	if err := tool(ctx, "", "qemu-img", "compare", "-q", "-f", "raw", "-F", "raw", want, target); err != nil {
		return fmt.Errorf("compare the disk that it made: %w", err)
	}
	b.right[name] = true
	return nil
}

// look adds what can be seen of a run's files.
func (u *usage) look(p places) error {
	image, err := os.Stat(p.image)
	if err != nil {
		return err
	}
	var target unix.Stat_t
	if err := unix.Stat(p.target, &target); err != nil {
		return fmt.Errorf("look at %s: %w", p.target, err)
	}
	const block = 512 // stat(2), st_blocks
	u.image, u.allocated = image.Size(), target.Blocks*block
	return nil
}
