package cluster

import (
	"context"
	"io"

	"vmdisk.io/vmdisk/lab/debian"
)

// tools are the programs that the lab runs. Debian's own containerd service, which the package may start, doesn't matter:
// the lab's have sockets and directories of their own.
func tools() []debian.Tool {
	return []debian.Tool{
		{Program: "containerd", Package: "containerd"},
		{Program: "runc", Package: "runc"},
		{Program: "/usr/lib/cni/bridge", Package: "containernetworking-plugins"},
		{Program: "conntrack", Package: "conntrack"},
		{Program: "socat", Package: "socat"},
		{Program: "iptables", Package: "iptables"},
		{Program: "ipset", Package: "ipset"},
		{Program: "ip", Package: "iproute2"},
		{Program: "mkfs.ext4", Package: "e2fsprogs"},
		{Program: "losetup", Package: "mount"},
		{Program: "qemu-img", Package: "qemu-utils"},
	}
}

// installPackages installs the Debian packages that are missing.
func installPackages(ctx context.Context, o Options) error {
	out := o.Out
	if out == nil {
		out = io.Discard
	}
	return debian.Ensure(ctx, out, tools())
}
