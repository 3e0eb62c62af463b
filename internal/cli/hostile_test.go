package cli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a hostile file may cost before it is refused.
const (
	hostileTime   = time.Second // of a CPU; the wall clock tells of the machine's other work
	hostileMemory = 128 << 20   // bytes, the peak of what is resident, the program included
	hostileWait   = 20 * time.Second
)

// peakFile is the environment variable with the file to which vmdisk in this test's binary writes its peak of memory. What the
// kernel tells a parent isn't of use: it begins with the parent's own.
const peakFile = "VMDISK_TEST_PEAK"

// writePeak writes the peak of this process's memory to the file that peakFile names.
func writePeak() {
	path := os.Getenv(peakFile)
	if path == "" {
		return
	}
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		_, peak, _ := strings.Cut(string(status), "VmHWM:")
		peak, _, _ = strings.Cut(peak, "kB")
		err = os.WriteFile(path, []byte(strings.TrimSpace(peak)), 0o600)
	}
	if err != nil {
		panic(err)
	}
}

// TestHostileFiles has a file for each number in each format that could make a reader allocate, loop, wait, or look elsewhere.
// Each is refused in one sentence, soon, in little memory, with nothing made. Other files that they name are a pipe that
// nobody writes to: whoever opens it waits for ever.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string][]byte{
		"qcow2": hostileQCOW2(t, pipe), "vmdk": hostileVMDK(t, pipe), "blocks": hostileBlocks(t), "wrappers": hostileWrappers(t), "tar": hostileTars(t),
		"others": {
			"a web page":      []byte("<!DOCTYPE html><html>" + strings.Repeat(" ", 4096)),
			"a short text":    []byte("not found\n"),
			"nothing":         {},
			"an lz4 file":     append([]byte("\x04\x22\x4d\x18"), make([]byte, 1<<20)...),
			"a zip file":      append([]byte("PK\x03\x04"), make([]byte, 1<<20)...),
			"a gzip of a web": packedBy(t, []byte("<html>"+strings.Repeat(" ", 4096)), "gzip"),
		},
	}
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		for _, name := range slices.Sorted(maps.Keys(all[kind])) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				path := filepath.Join(dir, "image")
				if err := os.WriteFile(path, all[kind][name], 0o600); err != nil {
					t.Fatal(err)
				}
				to := t.TempDir()
				for _, test := range []struct {
					args  []string
					mayBe bool // good: what is wrong lies deeper than that looks
				}{
					{[]string{"convert", path, filepath.Join(to, "disk.raw")}, false},
					{[]string{"convert", "-O", "qcow2", path, filepath.Join(to, "disk.qcow2")}, false},
					{[]string{"inspect", path}, true},
				} {
					requireCheapRefusal(t, test.mayBe, test.args...)
				}
				requireOnly(t, to)
			})
		}
	}
}

// requireCheapRefusal runs vmdisk in a process of its own.
func requireCheapRefusal(t *testing.T, mayBeGood bool, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hostileWait)
	defer cancel()
	peak := filepath.Join(t.TempDir(), "peak")
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asMain+"=1", peakFile+"="+peak)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run() // its exit code tells
	state := cmd.ProcessState
	said := strings.TrimPrefix(stderr.String(), "vmdisk: ")
	switch {
	case state.ExitCode() == exitDone && mayBeGood:
	case state.ExitCode() != exitRefused:
		t.Errorf("%s: exit code %d: %.300s", args[0], state.ExitCode(), said)
	case strings.Count(said, "\n") != 1 || len(said) > 700:
		t.Errorf("%s: this is no sentence: %.1000s", args[0], said)
	}
	if used := state.UserTime() + state.SystemTime(); used > hostileTime {
		t.Errorf("%s: took %s of a CPU", args[0], used)
	}
	text, err := os.ReadFile(peak)
	var resident int64
	if err == nil {
		_, err = fmt.Sscan(string(text), &resident)
	}
	if err != nil || resident<<10 > hostileMemory {
		t.Errorf("%s: took %d KiB of memory, %v", args[0], resident, err)
	}
}
