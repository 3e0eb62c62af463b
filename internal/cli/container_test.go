package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

const (
	memoryGroups = "/sys/fs/cgroup/memory"
	slowWrites   = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device"

	containerMemory = 128 << 20
	slowBytes       = 5 << 20 // a second
	slowDisk        = 112 << 20
	slowData        = 96 << 20 // of it: much more than what may be on its way to the storage
)

// TestLongASmallContainerSurvivesASlowDisk converts each kind of image within a container of 128 MiB, to a block device that takes
// 5 MB/s: what is read and decoded, and waits to be written, must not fill the memory. They run at the same time, each with a device of
// its own. It needs root and version 1 of cgroups, since that has a device's speed bounded for everybody.
func TestLongASmallContainerSurvivesASlowDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	if _, err := os.Stat(slowWrites); err != nil || os.Getuid() != 0 {
		t.Skipf("it needs root and cgroups of version 1: %v", err)
	}
	dir := t.TempDir()
	raw := filepath.Join(dir, "disk.raw")
	pattern := make([]byte, 24<<10)                   // found again by every packing, so that packing takes no time
	_, _ = rand.NewChaCha8([32]byte{1}).Read(pattern) // it never fails
	noise := bytes.Repeat(pattern, slowData/len(pattern))
	disk := append(noise, make([]byte, slowDisk-len(noise))...)
	if err := os.WriteFile(raw, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	imagetest.Run(t, "sh", "-ec", `cd "$0"
qemu-img convert -f raw -O qcow2 -c disk.raw zlib.qcow2
qemu-img convert -f raw -O qcow2 -c -o compression_type=zstd disk.raw zstd.qcow2
qemu-img convert -f raw -O vmdk -o subformat=streamOptimized disk.raw stream.vmdk
qemu-img convert -f raw -O vhdx disk.raw disk.vhdx
gzip -1 -k disk.raw
zstd -q -1 disk.raw
xz -kc -T1 --lzma2=preset=0,dict=8MiB disk.raw > one.xz
xz -kc -T2 --lzma2=preset=0,dict=8MiB --block-size=24MiB disk.raw > blocks.xz`, dir)
	want := sha256.Sum256(disk)
	var group sync.WaitGroup
	for _, name := range []string{"disk.raw", "zlib.qcow2", "zstd.qcow2", "stream.vmdk", "disk.vhdx", "disk.raw.gz", "disk.raw.zst", "one.xz", "blocks.xz"} {
		device := slowDevice(t, filepath.Join(dir, name+".target"))
		group.Go(func() { requireSurvives(t, filepath.Join(dir, name), device, want) })
	}
	group.Wait()
}

// slowDevice makes a block device that takes slowBytes a second.
func slowDevice(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Create(path)
	if err == nil {
		err = f.Truncate(slowDisk)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	out, err := exec.Command("losetup", "--find", "--show", path).Output()
	if err != nil {
		t.Fatalf("losetup: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { imagetest.Run(t, "losetup", "--detach", device) })
	var s syscall.Stat_t
	if err := syscall.Stat(device, &s); err != nil {
		t.Fatal(err)
	}
	number := fmt.Sprintf("%d:%d", s.Rdev>>8&0xfff, s.Rdev&0xff)
	bound := func(n int) {
		if err := os.WriteFile(slowWrites, fmt.Appendf(nil, "%s %d", number, n), 0o200); err != nil {
			t.Errorf("bound the speed of %s: %v", device, err)
		}
	}
	bound(slowBytes)
	t.Cleanup(func() { bound(0) })
	return device
}

// requireSurvives converts an image in a container, and looks at the device.
func requireSurvives(t *testing.T, image, device string, want [sha256.Size]byte) {
	name := filepath.Base(image)
	container := filepath.Join(memoryGroups, fmt.Sprintf("vmdisk-test-%d-%s", os.Getpid(), name))
	if err := os.Mkdir(container, 0o700); err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = os.Remove(container) }() // it is empty by then
	if err := os.WriteFile(filepath.Join(container, "memory.limit_in_bytes"), fmt.Append(nil, containerMemory), 0o200); err != nil {
		t.Error(err)
		return
	}
	peak := image + ".peak"
	cmd := exec.Command("sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, container, os.Args[0], "convert", "--target-zeroed", image, device)
	cmd.Env = append(os.Environ(), asMain+"=1", peakFile+"="+peak)
	if out, err := cmd.CombinedOutput(); err != nil {
		control, _ := os.ReadFile(filepath.Join(container, "memory.oom_control")) // says more, if it can be read
		t.Errorf("%s: %v: %s %s", name, err, out, bytes.Join(bytes.Fields(control), []byte(" ")))
		return
	}
	resident, err := os.ReadFile(peak)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%s: %s KiB resident at the peak", name, resident)
	f, err := os.Open(device)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil || [sha256.Size]byte(h.Sum(nil)) != want {
		t.Errorf("%s: the disk is another one, %v", name, err)
	}
}
