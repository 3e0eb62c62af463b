package transfer

import (
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// BenchmarkWrapped brings packed raw disks from a server on the loopback to a file. In the same run, and by turns, it does so
// the way CDI does: unpack to a scratch file while it is fetched, then qemu-img convert. CDI unpacks xz with a decoder in Go that is
// about four times as slow as the xz(1) of this comparison, and zstd not at all.
func BenchmarkWrapped(b *testing.B) {
	dir := b.TempDir()
	raw := filepath.Join(dir, "disk.raw")
	makeDisk(b, raw)
	server := httptest.NewServer(nethttp.FileServer(nethttp.Dir(dir)))
	defer server.Close()
	for name, c := range map[string]struct{ pack, unpack string }{
		"gz":        {"gzip -6", "gzip -dc"},
		"zst":       {"zstd -q -3", "zstd -dc"},
		"xz":        {"xz -2 -T1", "xz -dc -T1"},
		"xz-blocks": {"xz -2 -T2 --block-size=12MiB", "xz -dc -T1"},
	} {
		imagetest.Run(b, "sh", "-c", c.pack+" -c < "+raw+" > "+filepath.Join(dir, name))
		b.Run(name, func(b *testing.B) {
			var ours, theirs spent
			for b.Loop() {
				ours.add(func() { transferOnce(b, server.URL+"/"+name, filepath.Join(dir, "ours")) })
				b.StopTimer()
				theirs.add(func() {
					imagetest.Run(b, "sh", "-c", "curl -s --noproxy '*' "+server.URL+"/"+name+" | "+c.unpack+" > "+filepath.Join(dir, "scratch"))
					imagetest.Run(b, "qemu-img", "convert", "-t", "writeback", "-f", "raw", "-O", "raw", filepath.Join(dir, "scratch"), filepath.Join(dir, "theirs"))
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
			b.ReportMetric(ours.wall/float64(b.N), "s/op")
		})
	}
}
