package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"vmdisk.io/vmdisk/lab/debian"
)

// Booted says how a disk reached its login prompt.
type Booted struct {
	// Accelerator is "kvm", or "tcg" for QEMU's own emulation.
	Accelerator string
	// Time is from QEMU's start to the prompt.
	Time time.Duration
}

// accelerator is a way to run a virtual machine, and how long it may take to show that it works.
type accelerator struct {
	name string
	cpu  string
	// first is how soon anything must show on the console, silence how long it may then say nothing, total how soon
	// the prompt must be there.
	first, silence, total time.Duration
}

// kvm is impatient, since emulation comes after it: with real virtualization the boot loader speaks after a second or
// two. A kernel that offers /dev/kvm may still emulate what the boot needs (kvm_pvm, inside another virtual machine:
// the boot loader came after half a minute, the kernel never).
func kvm() accelerator {
	return accelerator{name: "kvm", cpu: "max,vmx=off,svm=off", first: 8 * time.Second, silence: 30 * time.Second,
		total: 2 * time.Minute}
}

func tcg() accelerator {
	return accelerator{name: "tcg", cpu: "qemu64,svm=off", first: time.Minute, silence: 2 * time.Minute,
		total: 6 * time.Minute}
}

// Boot starts a virtual machine from a raw disk, a file or a block device, and returns when the disk's system asks
// for a login on the serial console. The console is copied to out. The machine writes to a temporary overlay and is
// killed at the end, so the disk stays as it is; it may be in use, if nobody writes. QEMU is installed if it's missing.
// KVM is tried first; if it doesn't work, out says why and QEMU's emulation takes over. The error of a disk that
// doesn't boot has the console's last lines.
func Boot(ctx context.Context, device string, out io.Writer) (Booted, error) {
	if err := debian.Ensure(ctx, out, []debian.Tool{{Program: "qemu-system-x86_64", Package: "qemu-system-x86"}}); err != nil {
		return Booted{}, err
	}
	if _, err := os.Stat(device); err != nil {
		return Booted{}, fmt.Errorf("boot the disk: %w", err)
	}
	ways := []accelerator{tcg()}
	if probe, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err != nil {
		fmt.Fprintf(out, "no KVM here (%v): QEMU emulates the machine, which takes a minute or so\n", err)
	} else {
		ways = append([]accelerator{kvm()}, ways...)
		_ = probe.Close() // only opened to see whether it opens
	}
	var failures error
	for _, way := range ways {
		fmt.Fprintf(out, "booting %s with %s\n", device, way.name)
		start := time.Now()
		err := bootWith(ctx, way, device, out)
		if err == nil {
			return Booted{Accelerator: way.name, Time: time.Since(start)}, nil
		}
		failures = errors.Join(failures, fmt.Errorf("boot %s with %s: %w", device, way.name, err))
		if ctx.Err() != nil {
			break
		}
		if way.name == "kvm" {
			fmt.Fprintf(out, "KVM doesn't do it here, so QEMU emulates the machine, which takes a minute or so: %v\n", err)
		}
	}
	return Booted{}, failures
}

// bootWith is one attempt; nil means that the prompt came.
func bootWith(ctx context.Context, way accelerator, device string, out io.Writer) (err error) {
	overlay, err := os.MkdirTemp("", "vmdisk-boot-")
	if err != nil {
		return fmt.Errorf("make a directory for the overlay: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(overlay)) }()
	screen := newConsole(out)
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", way.name, "-cpu", way.cpu, "-m", "512",
		"-display", "none", "-nodefaults", "-no-reboot", "-chardev", "stdio,id=console,signal=off",
		"-serial", "chardev:console", "-drive", "file="+device+",format=raw,if=virtio,snapshot=on")
	qemu.Env = append(os.Environ(), "TMPDIR="+overlay) // where snapshot=on puts its overlay
	qemu.Stdout, qemu.Stderr = screen, screen
	qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // no machine outlives a killed demo
	if err := qemu.Start(); err != nil {
		return fmt.Errorf("start QEMU: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- qemu.Wait() }()
	verdict := awaitPrompt(ctx, way, screen, exited)
	if !errors.Is(verdict, errExited) {
		// Its own end is of no interest after the verdict.
		_ = qemu.Process.Kill()
		<-exited
	}
	screen.flush()
	if verdict != nil {
		if last := screen.last(); last != "" {
			return fmt.Errorf("%w; the console's last lines:\n%s", verdict, last)
		}
		return verdict
	}
	return nil
}

// errExited means that QEMU ended by itself.
var errExited = errors.New("the virtual machine ended by itself")

// awaitPrompt waits for the prompt and returns nil, or says why it won't come.
func awaitPrompt(ctx context.Context, way accelerator, screen *console, exited <-chan error) error {
	total := time.NewTimer(way.total)
	defer total.Stop()
	quiet := time.NewTimer(way.first)
	defer quiet.Stop()
	limit := way.first
	for {
		select {
		case <-screen.prompt:
			return nil
		case <-screen.spoke:
			limit = way.silence
			quiet.Reset(limit)
		case err := <-exited:
			if err == nil {
				return errExited
			}
			return fmt.Errorf("%w: %w", errExited, err)
		case <-quiet.C:
			return fmt.Errorf("the console said nothing for %s", limit)
		case <-total.C:
			return fmt.Errorf("no login prompt within %s", way.total)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
