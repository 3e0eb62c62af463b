// Package debian installs the Debian packages that the lab, its tests and the demo need, where they are missing. It
// knows programs and packages; it must not know what they are needed for.
package debian

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Tool is a program, or a file with an absolute path, and the Debian package that has it.
type Tool struct{ Program, Package string }

// Ensure has every tool on this machine: it installs the packages of those that are missing with apt-get, and says on
// out what it does. It changes nothing on a machine that has them all.
func Ensure(ctx context.Context, out io.Writer, tools []Tool) error {
	missing := missingPackages(tools, exists)
	if len(missing) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(out, "installing Debian packages: %s\n", strings.Join(missing, " ")); err != nil {
		return fmt.Errorf("say which packages are installed: %w", err)
	}
	if err := aptGet(ctx, "update"); err != nil {
		return fmt.Errorf("refresh apt's package lists: %w", err)
	}
	if err := aptGet(ctx, append([]string{"install", "-y", "--no-install-recommends"}, missing...)...); err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(missing, " "), err)
	}
	if still := missingPackages(tools, exists); len(still) > 0 {
		return fmt.Errorf("apt-get installed %s, yet their programs are not found: put /usr/sbin and /sbin on PATH", strings.Join(still, " "))
	}
	return nil
}

func aptGet(ctx context.Context, args ...string) error {
	// A machine that has just started may be installing its updates: that is waited for, for so many seconds.
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w (it needs root and Debian's package sources): %s", args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}

// missingPackages are the packages of the tools that don't exist, each once, in order.
func missingPackages(tools []Tool, exists func(program string) bool) []string {
	var missing []string
	for _, tool := range tools {
		if !exists(tool.Program) && !slices.Contains(missing, tool.Package) {
			missing = append(missing, tool.Package)
		}
	}
	return missing
}

func exists(program string) bool {
	if strings.HasPrefix(program, "/") {
		_, err := os.Stat(program)
		return err == nil
	}
	_, err := exec.LookPath(program)
	return err == nil
}
