// Package imagetest makes disk images with QEMU's own tools, for tests that compare ours with them. It needs qemu-img and
// qemu-io, and fails a test that lacks them: without the comparison the test would prove nothing.
package imagetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Recipe says how an image is made.
type Recipe struct {
	// Options are qemu-img's -o, such as "cluster_size=4k,compat=0.10".
	Options string
	// Empty makes an empty image of DiskBytes; otherwise it is converted from Disk.
	Empty bool
	// Compressed stores the clusters of Disk compressed.
	Compressed bool
	// Steps are then done one after the other: "io COMMAND" is qemu-io's, "resize [--shrink] SIZE", "snapshot NAME" and
	// "forget NAME", of a snapshot, and "bitmap NAME" are qemu-img's.
	Steps []string
}

// DiskBytes is the length of Disk. It is no multiple of any cluster size.
const DiskBytes = 9<<20 + 3*512

// Disk is a disk with noise, text that compresses well, constants and zeros, in runs of all lengths. It is always the
// same.
func Disk() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	disk := make([]byte, DiskBytes)
	for at := 0; at < len(disk); {
		n := min(512<<r.IntN(11), len(disk)-at)
		run := disk[at : at+n]
		switch r.IntN(5) {
		case 0, 1: // zeros
		case 2:
			for i := range run {
				run[i] = byte(r.Uint32())
			}
		case 3:
			word := fmt.Sprintf("line %d of a text that compresses well\n", r.IntN(1000))
			for i := range run {
				run[i] = word[i%len(word)]
			}
		case 4:
			c := byte(r.IntN(256))
			for i := range run {
				run[i] = c
			}
		}
		at += n
	}
	copy(disk, "\xeb\x63\x90")   // a jump, as a boot sector begins
	copy(disk[510:], "\x55\xaa") // and as it ends
	return disk
}

// Recipes are images of every kind that QEMU makes, by a name that reads as a sentence.
func Recipes() map[string]Recipe {
	scattered := randomWrites(400, DiskBytes, 3)
	recipes := map[string]Recipe{
		"version 2":       {Options: "compat=0.10"},
		"version 3":       {Options: "compat=1.1"},
		"version 2, zlib": {Options: "compat=0.10", Compressed: true},
		"zlib":            {Compressed: true},
		"zstd":            {Options: "compression_type=zstd", Compressed: true},
		"smallest subclusters, written at random": {Options: "extended_l2=on,cluster_size=16k", Empty: true, Steps: scattered},
		"subclusters of 64 KiB at random":         {Options: "extended_l2=on,cluster_size=2M", Empty: true, Steps: scattered},
		"subclusters made zero":                   {Options: "extended_l2=on", Steps: []string{"io write -z 0 100k", "io write -z 1M 6k", "io discard 3M 70k", "io write -P 7 3M 1k"}},
		"preallocated metadata":                   {Options: "preallocation=metadata", Empty: true, Steps: scattered},
		"preallocated metadata, subclusters":      {Options: "preallocation=metadata,extended_l2=on", Empty: true, Steps: scattered},
		"fully preallocated":                      {Options: "preallocation=full", Empty: true, Steps: scattered[:20]},
		"empty":                                   {Empty: true},
		"written at random":                       {Empty: true, Steps: scattered},
		"written at random, small clusters":       {Options: "cluster_size=512", Empty: true, Steps: scattered},
		"zero clusters":                           {Steps: []string{"io write -z 0 1M", "io write -z 4M 300k", "io write -z -u 6M 1M"}},
		"zero clusters that keep their place":     {Options: "preallocation=metadata", Empty: true, Steps: []string{"io write -P 1 0 4M", "io write -z 1M 1M"}},
		"zlib and plain mixed":                    {Compressed: true, Steps: scattered},
		"zstd and plain mixed":                    {Options: "compression_type=zstd", Compressed: true, Steps: scattered},
		"written at random, compressed":           {Empty: true, Steps: compressedWrites(60)},
		"an internal snapshot":                    {Steps: append([]string{"snapshot one"}, scattered...)},
		"two snapshots and zlib":                  {Compressed: true, Steps: append(append([]string{"snapshot one"}, scattered[:200]...), append([]string{"snapshot two"}, scattered[200:]...)...)},
		"grown, so the L1 table moved":            {Options: "cluster_size=512", Steps: append([]string{"resize 64M"}, randomWrites(50, 64<<20, 5)...)},
		"grown, zlib":                             {Options: "cluster_size=512", Compressed: true, Steps: append([]string{"resize 64M"}, randomWrites(50, 64<<20, 5)...)},
		"a snapshot, then grown":                  {Options: "cluster_size=512", Steps: append([]string{"snapshot one", "resize 64M"}, randomWrites(50, 64<<20, 5)...)},
		"refcounts of one bit":                    {Options: "refcount_bits=1", Steps: scattered[:50]},
		"refcounts of 64 bits":                    {Options: "refcount_bits=64", Steps: scattered[:50]},
		"lazy refcounts":                          {Options: "lazy_refcounts=on", Steps: scattered[:50]},
		"shrunk, so the L1 table is too long":     {Options: "cluster_size=512", Steps: []string{"resize 64M", "resize --shrink 5M"}},
		"a snapshot that was deleted":             {Options: "cluster_size=4k", Steps: append(append([]string{"snapshot one"}, scattered[:200]...), "forget one")},
		"a snapshot that was deleted, zlib":       {Options: "cluster_size=512", Compressed: true, Steps: append(append([]string{"snapshot one"}, scattered...), "forget one")},
		"a bitmap and discarded clusters":         {Options: "cluster_size=4k", Steps: append(append([]string{"bitmap one", "io discard 1M 2M", "io discard 5M 1M"}, scattered[:50]...), "bitmap two")},
	}
	for bits := 9; bits <= 21; bits++ {
		name := "clusters of " + inUnits(1<<bits)
		options := fmt.Sprintf("cluster_size=%d", 1<<bits)
		recipes[name] = Recipe{Options: options}
		recipes[name+", zlib"] = Recipe{Options: options, Compressed: true}
		recipes[name+", zstd"] = Recipe{Options: options + ",compression_type=zstd", Compressed: true}
		if bits >= 14 { // subclusters of a sector
			recipes[name+" with subclusters"] = Recipe{Options: options + ",extended_l2=on", Steps: scattered[:50]}
			recipes[name+" with subclusters, zlib"] = Recipe{Options: options + ",extended_l2=on", Compressed: true, Steps: scattered[:20]}
		}
	}
	recipes["subclusters, zstd"] = Recipe{Options: "extended_l2=on,compression_type=zstd", Compressed: true}
	return recipes
}

// inUnits is a power of two as people write it.
func inUnits(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

// RandomWrites are n writes of a few sectors each within Disk, at places that don't change from run to run.
func RandomWrites(n int) []string { return randomWrites(n, DiskBytes, 3) }

// randomWrites are n writes of a few sectors each, at places that don't change from run to run.
func randomWrites(n int, size int64, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 4))
	var steps []string
	for range n {
		length := 512 * (1 + r.Int64N(40))
		offset := r.Int64N((size-length)/512) * 512
		steps = append(steps, fmt.Sprintf("io write -P %d %d %d", 1+r.IntN(255), offset, length))
	}
	return steps
}

// compressedWrites are n compressed clusters in no order.
func compressedWrites(n int) []string {
	r := rand.New(rand.NewPCG(6, 7))
	var steps []string
	for _, cluster := range r.Perm(DiskBytes / (64 << 10))[:n] {
		steps = append(steps, fmt.Sprintf("io write -c -P %d %d 64k", 1+r.IntN(255), cluster*(64<<10)))
	}
	return steps
}

// Make makes a qcow2 image in dir and answers its path, and the disk that QEMU reads from it.
func Make(t testing.TB, dir string, r Recipe) (path string, disk []byte) {
	t.Helper()
	return MakeAs(t, dir, "qcow2", r)
}

// MakeAs makes an image in dir, of a format that QEMU calls so, and answers its path, and the disk that QEMU reads from
// it.
func MakeAs(t testing.TB, dir, format string, r Recipe) (path string, disk []byte) {
	t.Helper()
	path = filepath.Join(dir, "image."+format)
	source := filepath.Join(dir, "source.raw")
	if r.Empty {
		Run(t, "qemu-img", "create", "-q", "-f", format, "-o", strings.TrimSuffix(fmt.Sprintf("size=%d,%s", DiskBytes, r.Options), ","), path)
	} else {
		if err := os.WriteFile(source, Disk(), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"convert", "-q", "-f", "raw", "-O", format}
		if r.Options != "" {
			args = append(args, "-o", r.Options)
		}
		if r.Compressed {
			args = append(args, "-c")
		}
		Run(t, "qemu-img", append(args, source, path)...)
	}
	runSteps(t, path, format, r.Steps)
	Run(t, "qemu-img", "convert", "-q", "-f", format, "-O", "raw", path, source)
	disk, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(source); err != nil {
		t.Fatal(err)
	}
	return path, disk
}

// Image is MakeAs for those who want the image's bytes.
func Image(t testing.TB, format string, r Recipe) (content, disk []byte) {
	t.Helper()
	path, disk := MakeAs(t, t.TempDir(), format, r)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content, disk
}

// runSteps does the steps of a recipe; neighbouring qemu-io commands go to one process.
func runSteps(t testing.TB, path, format string, steps []string) {
	t.Helper()
	var commands []string
	flush := func() {
		if commands != nil {
			Run(t, "qemu-io", append([]string{"-f", format, path}, commands...)...)
			commands = nil
		}
	}
	for _, step := range steps {
		verb, rest, _ := strings.Cut(step, " ")
		switch verb {
		case "io":
			commands = append(commands, "-c", rest)
			continue
		case "resize":
			flush()
			arguments := strings.Fields(rest)
			size := arguments[len(arguments)-1]
			Run(t, "qemu-img", append(append([]string{"resize", "-q", "-f", format}, arguments[:len(arguments)-1]...), path, size)...)
		case "snapshot":
			flush()
			Run(t, "qemu-img", "snapshot", "-c", rest, path)
		case "bitmap":
			flush()
			Run(t, "qemu-img", "bitmap", "--add", path, rest)
		case "forget":
			flush()
			Run(t, "qemu-img", "snapshot", "-d", rest, path)
		default:
			t.Fatalf("step %q is not known", step)
		}
	}
	flush()
}

// Run runs one of QEMU's tools, and fails the test where that fails.
func Run(t testing.TB, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%s is missing: install it (Debian: apt-get install qemu-utils); this test compares with it", name)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	// To make a LUKS image QEMU measures how fast it hashes, and gives up where the kernel's clock for threads says that it took no time.
	for tries := 1; err != nil && tries < 5 && strings.Contains(string(out), "Unable to get accurate CPU usage"); tries++ {
		out, err = exec.Command(name, args...).CombinedOutput()
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// TryConvert answers the disk that QEMU reads from an image, and false where it refuses the image.
func TryConvert(t testing.TB, path, format string) ([]byte, bool) {
	t.Helper()
	raw := path + ".raw"
	if err := exec.Command("qemu-img", "convert", "-q", "-f", format, "-O", "raw", path, raw).Run(); err != nil {
		return nil, false
	}
	disk, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	return disk, true
}
