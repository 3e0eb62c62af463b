package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// debianPackages maps a program (or a file) that the lab needs to the Debian package that has it.
func debianPackages() []struct{ file, pkg string } {
	return []struct{ file, pkg string }{
		{"containerd", "containerd"},
		{"runc", "runc"},
		{"/usr/lib/cni/bridge", "containernetworking-plugins"},
		{"conntrack", "conntrack"},
		{"socat", "socat"},
		{"iptables", "iptables"},
		{"ipset", "ipset"},
		{"ip", "iproute2"},
		{"mkfs.ext4", "e2fsprogs"},
		{"losetup", "mount"},
		{"qemu-img", "qemu-utils"},
	}
}

// installPackages installs the Debian packages that are missing. Debian's own containerd service, which the package may
// start, doesn't matter: the lab's have sockets and directories of their own.
func installPackages(ctx context.Context, o Options) error {
	var missing []string
	for _, need := range debianPackages() {
		if strings.HasPrefix(need.file, "/") {
			if _, err := os.Stat(need.file); err == nil {
				continue
			}
		} else if _, err := exec.LookPath(need.file); err == nil {
			continue
		}
		missing = append(missing, need.pkg)
	}
	if len(missing) == 0 {
		return nil
	}
	o.say("installing Debian packages: %s", strings.Join(missing, " "))
	for _, args := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...),
	} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install the Debian packages %s: apt-get %s: %w\n%s", strings.Join(missing, " "), args[0], err, out)
		}
	}
	return nil
}
