package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/target"
)

const (
	benchData = 300 << 20 // bytes of this machine's files
	benchDisk = 2 << 30
)

// BenchmarkTransfer brings images of this machine's own files from a server on the loopback to a file. In the same run,
// and by turns, it does so the way CDI does: curl to a scratch file, then qemu-img convert. The ratios are theirs to ours;
// CPU seconds are less noisy than wall time.
func BenchmarkTransfer(b *testing.B) {
	dir := b.TempDir()
	raw := filepath.Join(dir, "disk.raw")
	makeDisk(b, raw)
	server := httptest.NewServer(nethttp.FileServer(nethttp.Dir(dir)))
	defer server.Close()
	for name, options := range map[string][]string{
		"zlib":  {"-c", "-o", "compression_type=zlib"},
		"zstd":  {"-c", "-o", "compression_type=zstd"},
		"plain": {},
	} {
		imagetest.Run(b, "qemu-img", append(append([]string{"convert", "-f", "raw", "-O", "qcow2"}, options...), raw, filepath.Join(dir, name))...)
		b.Run(name, func(b *testing.B) {
			var ours, theirs spent
			for b.Loop() {
				ours.add(func() { transferOnce(b, server.URL+"/"+name, filepath.Join(dir, "ours")) })
				b.StopTimer()
				theirs.add(func() {
					imagetest.Run(b, "curl", "-s", "--noproxy", "*", "-o", filepath.Join(dir, "scratch"), server.URL+"/"+name)
					imagetest.Run(b, "qemu-img", "convert", "-t", "writeback", "-O", "raw", filepath.Join(dir, "scratch"), filepath.Join(dir, "theirs"))
					imagetest.Run(b, "sync", filepath.Join(dir, "theirs"))
				})
				if out, err := exec.Command("cmp", filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")).CombinedOutput(); err != nil {
					b.Fatalf("the disks differ: %v\n%s", err, out)
				}
				for _, f := range []string{"ours", "scratch", "theirs"} {
					if err := os.Remove(filepath.Join(dir, f)); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
			b.ReportMetric(theirs.wall/ours.wall, "wall-ratio")
			b.ReportMetric(theirs.cpu/ours.cpu, "cpu-ratio")
			b.ReportMetric(ours.cpu/float64(b.N), "cpu-s/op")
		})
	}
}

// spent is time that was spent, in seconds. The processor's is this process's and its children's, the server included.
type spent struct{ wall, cpu float64 }

func (s *spent) add(f func()) {
	cpu := func() float64 {
		var sum float64
		for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
			var r syscall.Rusage
			if err := syscall.Getrusage(who, &r); err != nil {
				panic(err)
			}
			sum += time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
		}
		return sum
	}
	wallBefore, cpuBefore := time.Now(), cpu()
	f()
	s.wall += time.Since(wallBefore).Seconds()
	s.cpu += cpu() - cpuBefore
}

func transferOnce(b *testing.B, from, to string) {
	src, err := http.New(http.Options{URL: from, Proxy: func(*url.URL) (*url.URL, error) { return nil, nil }})
	if err != nil {
		b.Fatal(err)
	}
	disk, err := target.OpenFile(target.FileOptions{Path: to, SizeBytes: benchDisk})
	if err != nil {
		b.Fatal(err)
	}
	_, err = Run(context.Background(), Job{Source: src, Target: disk})
	if err := errors.Join(err, disk.Close(), src.Close()); err != nil {
		b.Fatal(err)
	}
}

// makeDisk makes a sparse disk with this machine's own files on it, one behind the other as a filesystem would lay them.
func makeDisk(b *testing.B, path string) {
	disk, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	if err := disk.Truncate(benchDisk); err != nil {
		b.Fatal(err)
	}
	at := int64(1 << 20)
	err = filepath.WalkDir("/usr", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(io.NewOffsetWriter(disk, at), io.LimitReader(f, 8<<20))
		if at += (n + 4095) &^ 4095; at > benchData {
			return fs.SkipAll
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}
