package demo

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"vmdisk.io/vmdisk/lab/debian"
)

// WithTree makes a Debian root filesystem that has the packages, from the machine's own apt sources, hands its directory to
// use, and removes it. work is an existing directory for it. It installs what it needs, and must run as root on Debian.
func WithTree(ctx context.Context, out io.Writer, work string, packages []string, use func(root string) error) (err error) {
	sources, err := readAptSources("/etc")
	if err != nil {
		return err
	}
	if err := debian.Ensure(ctx, out, []debian.Tool{{Program: "mmdebstrap", Package: "mmdebstrap"}}); err != nil {
		return err
	}
	if sources.options, err = readAptOptions(ctx); err != nil {
		return err
	}
	sourceFiles, err := sources.write(work)
	if err != nil {
		return err
	}
	root := filepath.Join(work, "root")
	if err := removeTree(root); err != nil {
		return err
	}
	defer func() {
		if cleanErr := removeTree(root); err == nil {
			err = cleanErr
		}
	}()
	args := []string{"--mode=root", "--variant=important", "--format=directory", "--quiet", "--include=" + strings.Join(packages, ","),
		"--aptopt=Acquire::Languages \"none\"", "--aptopt=Acquire::Retries \"3\""}
	for _, option := range sources.options {
		args = append(args, "--aptopt="+option)
	}
	args = append(append(args, sources.codename, root), sourceFiles...)
	if _, err := (command{name: "mmdebstrap", args: args}).run(ctx); err != nil {
		return fmt.Errorf("make a Debian root filesystem: %w", err)
	}
	return use(root)
}
