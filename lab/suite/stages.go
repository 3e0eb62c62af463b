package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"vmdisk.io/vmdisk/lab/cluster"
	"vmdisk.io/vmdisk/lab/debian"
)

// unitTools are what unit tests run: a C compiler for the race detector, qemu-img as the judge of image formats, and
// what makes filesystems, loop devices and packed images.
func unitTools() []debian.Tool {
	return []debian.Tool{
		{Program: "gcc", Package: "gcc"},
		{Program: "/usr/include/stdlib.h", Package: "libc6-dev"},
		{Program: "qemu-img", Package: "qemu-utils"},
		{Program: "mkfs.ext4", Package: "e2fsprogs"},
		{Program: "losetup", Package: "mount"},
		{Program: "pigz", Package: "pigz"},
		{Program: "pzstd", Package: "zstd"},
		{Program: "xz", Package: "xz-utils"},
		{Program: "bzip2", Package: "bzip2"},
	}
}

// raced are the packages in which goroutines share memory, and which are quick to build for the race detector.
func raced() []string {
	return []string{"./internal/job/...", "./internal/stream/...", "./internal/source/...", "./internal/transfer/...", "./internal/worker/..."}
}

// static checks what needs no test. Its parts count as one test.
func static(ctx context.Context, o Options) (Counts, error) {
	commands := [][]string{{"make", "--no-print-directory", "verify"}}
	if o.All {
		commands = append(commands, []string{"make", "--no-print-directory", "lint"})
	}
	for _, command := range commands {
		if err := run(ctx, o.Out, nil, command...); err != nil {
			return Counts{}, err
		}
	}
	return Counts{Passed: len(commands)}, nil
}

func unit(ctx context.Context, o Options) (Counts, error) {
	if err := debian.Ensure(ctx, o.Out, unitTools()); err != nil {
		return Counts{}, err
	}
	race, plain, err := split(ctx, o.All)
	if err != nil {
		return Counts{}, err
	}
	total, err := goTest(ctx, o.Out, test{packages: race, timeout: 30 * time.Minute, flags: []string{"-race"}})
	if err != nil || len(plain) == 0 {
		return total, err
	}
	rest, err := goTest(ctx, o.Out, test{packages: plain, timeout: 15 * time.Minute})
	return total.plus(rest), err
}

// split divides the packages into those that are tested with the race detector and the others.
func split(ctx context.Context, all bool) (race, plain []string, err error) {
	everything, err := list(ctx, "./...")
	if err != nil || all {
		return everything, nil, err
	}
	if race, err = list(ctx, raced()...); err != nil {
		return nil, nil, err
	}
	for _, name := range everything {
		if !slices.Contains(race, name) {
			plain = append(plain, name)
		}
	}
	return race, plain, nil
}

// list are the packages that patterns match.
func list(ctx context.Context, patterns ...string) ([]string, error) {
	var out strings.Builder
	if err := run(ctx, &out, os.Stderr, append([]string{"go", "list"}, patterns...)...); err != nil {
		return nil, err
	}
	return strings.Fields(out.String()), nil
}

func apiServer(ctx context.Context, o Options) (Counts, error) {
	if err := cluster.Build(ctx, cluster.Options{Out: o.Out}); err != nil {
		return Counts{}, err
	}
	all, err := tagged(".", "apiserver")
	if err != nil {
		return Counts{}, err
	}
	return goTest(ctx, o.Out, test{packages: all.packages(), tags: "apiserver", timeout: 15 * time.Minute, flags: []string{all.run()}})
}

// lifecycle starts, kills and stops a lab of its own, in namespaces of its own, so that the machine's lab is not disturbed.
func lifecycle(ctx context.Context, o Options) (Counts, error) {
	if err := cluster.Build(ctx, cluster.Options{Out: o.Out}); err != nil {
		return Counts{}, err
	}
	return goTest(ctx, o.Out, test{packages: []string{"./lab/cluster"}, tags: "lifecycle", timeout: 15 * time.Minute, flags: []string{"-count=1", "-run=^TestTheLab"}, each: true})
}

// scenarios runs the tests in the lab, which install vmdisk there themselves. A lab that was up before is used and stays; one that is started for them is
// stopped again, unless Keep is set.
func scenarios(ctx context.Context, o Options) (counts Counts, err error) {
	lab := cluster.Options{Out: o.Out}
	up, err := cluster.Status(ctx, io.Discard)
	if err != nil || !up {
		fmt.Fprintln(o.Out, "starting the lab")
	}
	if !up && !o.Keep {
		defer func() {
			fmt.Fprintln(o.Out, "stopping the lab (KEEP=1 leaves it up)")
			err = errors.Join(err, cluster.Down(context.WithoutCancel(ctx), lab))
		}()
	}
	if err := cluster.Up(ctx, lab); err != nil {
		return counts, fmt.Errorf("start the lab: %w", err)
	}
	flags := []string{"-count=1"}
	if !o.All {
		flags = append(flags, "-skip=^TestLong")
	}
	all, err := tagged(".", "e2e")
	if err != nil {
		return counts, err
	}
	for _, one := range all { // one after another: there is only one lab
		more, err := goTest(ctx, o.Out, test{
			packages: []string{one.dir}, tags: "e2e", timeout: time.Hour, flags: append(flags, group{one}.run()), each: true,
		})
		counts = counts.plus(more)
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}

// test is one run of go test.
type test struct {
	packages []string
	tags     string
	flags    []string
	timeout  time.Duration
	// each names every test that ends.
	each bool
}

// goTest runs go test, tells what happens, and counts. That tests failed shows in the counts, not in the error.
func goTest(ctx context.Context, out io.Writer, t test) (Counts, error) {
	args := append([]string{"go", "test", "-json", "-tags=" + t.tags, "-timeout=" + t.timeout.String()}, t.flags...)
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, writer, writer, append(args, t.packages...)...)
		ended <- err
		writer.CloseWithError(io.EOF)
	}()
	counts, err := count(reader, out, t.each)
	runErr := <-ended
	var exit *exec.ExitError
	if counts.Failed > 0 && errors.As(runErr, &exit) { // told and counted
		runErr = nil
	}
	return counts, errors.Join(err, runErr)
}

// run runs a command to its end. If ctx ends first, the command and what it has started are told to stop; they get 20
// seconds for that. A test that is stopped does not clean up: the end of the lab does, and the next run's beginning.
func run(ctx context.Context, out, errOut io.Writer, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = out, errOut
	if errOut == nil {
		cmd.Stderr = out
	}
	cmd.Env = os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return nil
}
