package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// tool is a program that the demo runs, and the Debian package that has it.
type tool struct{ program, debianPackage string }

// imageTools build the image. grub-pc-bin has no program: it is known by a file.
func imageTools() []tool {
	return []tool{
		{"mmdebstrap", "mmdebstrap"},
		{"grub-mkimage", "grub-common"},
		{grubDir + "/boot.img", "grub-pc-bin"},
		{"sfdisk", "fdisk"},
		{"mke2fs", "e2fsprogs"},
		{"qemu-img", "qemu-utils"},
	}
}

// bootTools boot a disk.
func bootTools() []tool { return []tool{{"qemu-system-x86_64", "qemu-system-x86"}} }

// install makes sure that the tools are there, with apt-get where they aren't, and says on out what it does. It
// changes nothing on a machine that has them all.
func install(ctx context.Context, out io.Writer, tools []tool) error {
	missing := missingPackages(tools, exists)
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintf(out, "installing %s with apt-get\n", strings.Join(missing, " "))
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	if _, err := (command{name: "apt-get", args: []string{"-q", "update"}, env: env}).run(ctx); err != nil {
		return fmt.Errorf("refresh apt's package lists: %w", err)
	}
	args := append([]string{"-q", "install", "-y", "--no-install-recommends"}, missing...)
	if _, err := (command{name: "apt-get", args: args, env: env}).run(ctx); err != nil {
		return fmt.Errorf("install %s: %w", strings.Join(missing, " "), err)
	}
	if still := missingPackages(tools, exists); len(still) > 0 {
		return fmt.Errorf("apt-get installed %s, yet their programs are not in PATH; is /usr/sbin in it",
			strings.Join(still, " "))
	}
	return nil
}

// missingPackages returns the packages of the tools that don't exist, each once, in order.
func missingPackages(tools []tool, exists func(program string) bool) []string {
	var missing []string
	for _, t := range tools {
		if !exists(t.program) && !slices.Contains(missing, t.debianPackage) {
			missing = append(missing, t.debianPackage)
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
