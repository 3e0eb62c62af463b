package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// rootUUID names the image's root filesystem. It is fixed so that the image depends on its packages only.
const rootUUID = "5b0c1f4e-6f0a-4b7e-9d0c-766d6469736b"

// imagePackages come on top of Debian's essential and required packages: a kernel for virtual machines, what it needs
// to find its root, an init, and a network. There is no ssh server, since the image's password is public.
func imagePackages() []string {
	return []string{
		"linux-image-cloud-amd64", "initramfs-tools", "zstd", "systemd-sysv", "udev", "dbus", "iproute2", "netbase", "logsave",
		"debian-archive-keyring",
	}
}

// imageFiles are written into the root filesystem, over what the packages put there.
func imageFiles() map[string]string {
	return map[string]string{
		"etc/hostname": "debian\n",
		"etc/hosts":    "127.0.0.1 localhost\n127.0.1.1 debian\n::1 localhost ip6-localhost\n",
		// Empty, and not absent: systemd makes an id of its own on each machine's first boot, machine-id(5).
		"etc/fstab":                      "UUID=" + rootUUID + " / ext4 errors=remount-ro 0 1\n",
		"etc/machine-id":                 "",
		"etc/apt/sources.list":           "# Empty: the image was built from the sources of the machine that built it.\n",
		"etc/systemd/network/en.network": "[Match]\nName=en*\n\n[Network]\nDHCP=yes\n",
		"etc/issue":                      "Debian GNU/Linux, built by vmdisk's demo: \\s \\r on \\l: log in as root, password demo\n",
		"boot/grub/grub.cfg":             grubConfig,
	}
}

const grubConfig = `serial --unit=0 --speed=115200
terminal_input serial console
terminal_output serial console
set timeout=0
menuentry "Debian GNU/Linux" {
	linux /vmlinuz root=UUID=` + rootUUID + ` ro console=tty0 console=ttyS0,115200 loglevel=5
	initrd /initrd.img
}
`

// bootModules are the kernel modules that find the root filesystem on the disks that virtual machines have: KubeVirt's
// virtio, scsi and sata buses, and nvme.
func bootModules() []string {
	return []string{"virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod", "ahci", "ata_piix", "nvme", "ext4"}
}

// slimming leaves out what nobody reads in a demo, and keeps the licences.
func slimming() []string {
	return []string{
		"path-exclude=/usr/share/doc/*", "path-include=/usr/share/doc/*/copyright", "path-exclude=/usr/share/man/*",
		"path-exclude=/usr/share/info/*", "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/lintian/*",
		"path-exclude=/usr/share/bug/*",
	}
}

// buildRoot makes a Debian root filesystem in dir, which must not exist. work is a directory for its small files. The lock
// held outlives a killed demo for as long as mmdebstrap is at it, so that the next build doesn't meet it.
func buildRoot(ctx context.Context, dir, work string, sources aptSources, held *os.File) error {
	sourceFiles, err := sources.write(work)
	if err != nil {
		return err
	}
	args := []string{"--mode=root", "--variant=minbase", "--format=directory", "--quiet",
		"--include=" + strings.Join(imagePackages(), ","), "--aptopt=Acquire::Languages \"none\"",
		"--aptopt=Acquire::Retries \"3\"",
		// zstd's highest levels take a minute for a few bytes; the image is compressed once more anyway. The type of the
		// root, which is yet to be made, can't be seen: without FSTYPE the initramfs wouldn't check it.
		"--essential-hook=mkdir -p \"$1/etc/initramfs-tools/conf.d\"",
		"--essential-hook=printf 'COMPRESS=zstd\\nCOMPRESSLEVEL=3\\nMODULES=list\\nFSTYPE=ext4\\n' > \"$1/etc/initramfs-tools/conf.d/demo.conf\"",
		"--essential-hook=printf '" + strings.Join(bootModules(), "\\n") + "\\n' > \"$1/etc/initramfs-tools/modules\"",
		"--customize-hook=echo root:demo | chroot \"$1\" chpasswd",
		"--customize-hook=chroot \"$1\" systemctl enable systemd-networkd.service",
		// Chores of a long-lived machine, which delay the prompt where QEMU emulates.
		"--customize-hook=chroot \"$1\" systemctl mask e2scrub_reap.service apt-daily.timer apt-daily-upgrade.timer " +
			"modprobe@drm.service",
	}
	for _, option := range sources.options {
		args = append(args, "--aptopt="+option)
	}
	for _, rule := range slimming() {
		args = append(args, "--dpkgopt="+rule)
	}
	args = append(append(args, sources.codename, dir), sourceFiles...)
	if _, err := (command{name: "mmdebstrap", args: args, hold: held}).run(ctx); err != nil {
		return fmt.Errorf("build a Debian root filesystem: %w", err)
	}
	return finishRoot(dir)
}

// finishRoot writes imageFiles and removes what belongs to the building machine.
func finishRoot(dir string) error {
	for _, pattern := range []string{
		"etc/apt/sources.list.d/*", "etc/apt/apt.conf.d/99mmdebstrap", "etc/resolv.conf", "var/log/*.log",
		"var/log/apt/*", "var/cache/apt/*.bin", "var/cache/debconf/*-old", "var/lib/dpkg/*-old",
	} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("clean the root filesystem: %w", err)
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("clean the root filesystem: %w", err)
			}
		}
	}
	for name, text := range imageFiles() {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("finish the root filesystem: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("finish the root filesystem: %w", err)
		}
	}
	for _, name := range []string{"vmlinuz", "initrd.img"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("find the image's kernel, which the boot loader starts: %w", err)
		}
	}
	return nil
}
