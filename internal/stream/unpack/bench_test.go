package unpack

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	benchData  = 64 << 20  // bytes of this machine's files
	benchZeros = 448 << 20 // behind them, as a disk has them
)

// machine is this machine's own files, one behind the other, and zeros.
func machine(b *testing.B) []byte {
	content := make([]byte, 0, benchData+benchZeros)
	err := filepath.WalkDir("/usr", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		part, err := io.ReadAll(io.LimitReader(f, min(4<<20, int64(benchData-len(content)))))
		if content = append(content, part...); len(content) >= benchData {
			return fs.SkipAll
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return content[:cap(content)]
}

// BenchmarkUnpack unpacks a disk, and by turns has the packing's own tool do it. The ratio is the tool's time to ours.
func BenchmarkUnpack(b *testing.B) {
	content := machine(b)
	all := packers()
	for name, c := range map[string]struct {
		packer packer
		pack   []string
		unpack []string
	}{
		"gzip":      {all[0], []string{"gzip", "-6", "-c"}, []string{"gzip", "-dc"}},
		"zstd":      {all[2], []string{"zstd", "-3", "-c"}, []string{"zstd", "-dc"}},
		"xz":        {all[3], []string{"xz", "-2", "-T1", "-c"}, []string{"xz", "-dc", "-T1"}},
		"xz-blocks": {all[3], []string{"xz", "-2", "-T2", "--block-size=8MiB", "-c"}, []string{"xz", "-dc", "-T1"}},
	} {
		b.Run(name, func(b *testing.B) {
			packed := tool(b, content, c.pack...)
			path := filepath.Join(b.TempDir(), "packed")
			if err := os.WriteFile(path, packed, 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(content)))
			var ours, theirs time.Duration
			for b.Loop() {
				started := time.Now()
				r, err := c.packer.open(bytes.NewReader(packed), options())
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{r}, make([]byte, 1<<20))
				if err = errors.Join(err, r.Close()); err != nil || n != int64(len(content)) {
					b.Fatalf("%d bytes, %v", n, err)
				}
				ours += time.Since(started)
				b.StopTimer()
				started = time.Now()
				if out, err := exec.Command("sh", "-c", strings.Join(c.unpack, " ")+" < "+path+" > /dev/null").CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				theirs += time.Since(started)
				b.StartTimer()
			}
			b.ReportMetric(theirs.Seconds()/ours.Seconds(), "tool-ratio")
		})
	}
}
