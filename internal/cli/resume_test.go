package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/transfer"
)

// killer is a web server that calls kill when it has sent so many bytes.
type killer struct {
	content []byte

	mu   sync.Mutex
	sent int64 // bytes, in all
	left int64 // until kill
	kill func()
}

// ServeHTTP implements http.Handler.
func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(&countedWriter{w, k}, r, "", time.Time{}, bytes.NewReader(k.content))
}

type countedWriter struct {
	http.ResponseWriter
	killer *killer
}

func (c *countedWriter) Write(p []byte) (int, error) {
	k := c.killer
	k.mu.Lock()
	before := k.left
	k.left -= int64(len(p))
	k.sent += int64(len(p))
	strike := before > 0 && k.left <= 0
	k.mu.Unlock()
	if strike {
		k.kill()
	}
	return c.ResponseWriter.Write(p)
}

// arm makes the server call kill after so many bytes; 0: never.
func (k *killer) arm(after int64, kill func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left, k.kill = after, kill
}

// largeDisk is several times imagetest.Disk, each time a little different.
func largeDisk() []byte {
	var disk []byte
	for i := range 5 {
		part := imagetest.Disk()
		for at := 0; at < len(part); at += 64 << 10 {
			part[at] ^= byte(i)
		}
		disk = append(disk, part...)
	}
	return disk
}

// killedImages are images of largeDisk, by a name.
func killedImages(t *testing.T) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	if err := os.WriteFile(raw, largeDisk(), 0o600); err != nil {
		t.Fatal(err)
	}
	images := map[string][]byte{"raw": largeDisk()}
	for name, args := range map[string][]string{
		"qcow2":                   {"-O", "qcow2"},
		"qcow2, zlib":             {"-O", "qcow2", "-c"},
		"qcow2, small clusters":   {"-O", "qcow2", "-o", "cluster_size=4k,compression_type=zstd", "-c"},
		"vmdk":                    {"-O", "vmdk"},
		"vmdk, stream-optimized":  {"-O", "vmdk", "-o", "subformat=streamOptimized"},
		"vhdx, blocks of one MiB": {"-O", "vhdx", "-o", "block_size=1M"},
	} {
		path := filepath.Join(dir, "image")
		imagetest.Run(t, "qemu-img", append(append([]string{"convert", "-f", "raw"}, args...), raw, path)...)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		images[name] = content
	}
	return images
}

// requireKilled converts an image and kills the process at random places, kills times in all, in conversions one after the
// other. Each conversion must come to its end with the right disk. It answers how many conversions were gone on with.
func requireKilled(t *testing.T, content []byte, kills int, seed uint64) (resumed int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	k := &killer{content: content}
	server := httptest.NewUnstartedServer(k)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // so that what was sent has nearly arrived; a wish
		return ctx
	}
	server.Start()
	defer server.Close()
	want := largeDisk()
	checksum := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	dir := t.TempDir()
	path, state := filepath.Join(dir, "disk.raw"), filepath.Join(dir, "state")
	// Where the machine is busy, the bytes that the server has sent may lie unread when the kill comes, and nothing is gone on from: then it
	// takes more kills to see one that is.
	most := kills
	for struck, row := 0, 0; struck < most || row > 0; {
		cmd := exec.Command(os.Args[0], "convert", "--json", "--progress", "none", "--checksum", checksum, "--resume", state, server.URL+"/disk", path)
		cmd.Env = append(os.Environ(), asMain+"=1")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		killed := make(chan struct{})
		after := int64(0)
		if struck < most && row < 8 {
			after = 1 + random.Int64N(int64(len(content))*5/4)
		}
		started := make(chan struct{})
		k.arm(after, func() {
			<-started
			_ = cmd.Process.Kill() // it may have ended
			close(killed)
		})
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(started)
		err := cmd.Wait()
		if err != nil && after == 0 {
			t.Fatalf("%v: %s", err, &stderr)
		}
		if err != nil {
			<-killed
			if cmd.ProcessState.ExitCode() >= 0 {
				t.Fatalf("it was not killed: %v: %s", err, &stderr)
			}
			struck, row = struck+1, row+1
			continue
		}
		row = 0
		var result convertResult
		if err := json.Unmarshal(stdout.Bytes(), &result); err != nil {
			t.Fatalf("%q: %v", &stdout, err)
		}
		if result.ResumedAt > 0 {
			resumed++
		}
		if struck >= most && resumed == 0 && most < 8*kills {
			most += kills
		}
		if strings.Contains(stderr.String(), "started over") {
			t.Errorf("%s", &stderr)
		}
		requireDisk(t, path, want)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Fatalf("left: %v, %v", left, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	return resumed
}

// TestAKilledConversionGoesOn kills it ten times.
func TestAKilledConversionGoesOn(t *testing.T) {
	images := killedImages(t)
	for _, name := range []string{"raw", "qcow2, zlib"} {
		t.Run(name, func(t *testing.T) {
			if requireKilled(t, images[name], 5, 1) == 0 {
				t.Error("no conversion went on")
			}
		})
	}
}

// TestLongAKilledConversionGoesOn kills conversions of each kind of image, more than 200 times in all.
func TestLongAKilledConversionGoesOn(t *testing.T) {
	for name, content := range killedImages(t) {
		t.Run(name, func(t *testing.T) {
			if resumed := requireKilled(t, content, 30, 2); resumed == 0 {
				t.Error("no conversion went on")
			}
		})
	}
}

// TestAStoppedConversionIsGoneOnWith is the same without violence.
func TestAStoppedConversionIsGoneOnWith(t *testing.T) {
	content := largeDisk()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	device := loopDevice(t, len(content)/4096*4096+4096)
	for name, target := range map[string]string{"a file": filepath.Join(dir, "disk.raw"), "a device": device} {
		t.Run(name, func(t *testing.T) {
			k := &killer{content: content}
			server := httptest.NewServer(k)
			defer server.Close()
			ctx, cancel := context.WithCancel(t.Context())
			k.arm(int64(len(content))*3/4, cancel)
			args := []string{"convert", "--json", "--resume", state, server.URL + "/disk", target}
			var stderr bytes.Buffer
			if code := run(ctx, args, nil, io.Discard, &stderr); code != exitStopped {
				t.Fatalf("exit code %d, %s", code, &stderr)
			}
			if diff := cmp.Diff("vmdisk: the same command goes on from where this one has come\nvmdisk: stopped before it was done\n", stderr.String()); diff != "" {
				t.Error(diff)
			}
			got := runHere(t, nil, args...)
			var result convertResult
			if err := json.Unmarshal([]byte(got.Stdout), &result); err != nil || got.Code != 0 {
				t.Fatalf("%+v: %v", got, err)
			}
			if result.ResumedAt == 0 || result.ReadBytes > int64(len(content))-result.ResumedAt+2<<20 {
				t.Errorf("%+v", result)
			}
			b, err := os.ReadFile(target)
			if err != nil || !bytes.Equal(b[:len(content)], content) || len(bytes.Trim(b[len(content):], "\x00")) > 0 {
				t.Errorf("it holds other bytes, %v", err)
			}
		})
	}
}

// TestADeviceThatIsStartedOverIsCleared has a source that has changed to zeros meanwhile.
func TestADeviceThatIsStartedOverIsCleared(t *testing.T) {
	content := largeDisk()
	size := len(content) / 4096 * 4096
	device := loopDevice(t, size)
	state := filepath.Join(t.TempDir(), "state")
	k := &killer{content: content[:size]}
	server := httptest.NewServer(k)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	k.arm(int64(size/2), cancel)
	args := []string{"convert", "--target-zeroed", "--resume", state, server.URL + "/disk", device}
	if code := run(ctx, args, nil, io.Discard, io.Discard); code != exitStopped {
		t.Fatalf("exit code %d", code)
	}
	k.content = make([]byte, size-4096)
	want := ran{Stderr: "vmdisk: started over: the source has changed\n"}
	if diff := cmp.Diff(want, runHere(t, nil, args...)); diff != "" {
		t.Error(diff)
	}
	requireDisk(t, device, make([]byte, size))
}

// TestWhatStartsOverForgets stands where the target has not been cleared yet: a crash behind that must not find the checkpoint any more.
func TestWhatStartsOverForgets(t *testing.T) {
	for startsOver, kept := range map[string]bool{"": true, "the source has changed": false} {
		r := &resumption{path: filepath.Join(t.TempDir(), "state")}
		if err := r.save(transfer.Checkpoint{Mark: 1}); err != nil {
			t.Fatal(err)
		}
		if err := r.resumed(1, startsOver); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(r.path); (err == nil) != kept {
			t.Errorf("%q: %v, want that it is kept: %v", startsOver, err, kept)
		}
	}
}

func TestAResumeFileThatCannotBeUsedIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path, _ := imagetest.Make(t, dir, imagetest.Recipe{Empty: true})
	target := filepath.Join(dir, "disk.raw")
	tests := map[string]struct {
		content, want string
	}{
		"it is a text":           {"my notes", "this file was not made by vmdisk: name one that doesn't exist yet"},
		"it is of another kind":  {`{"a": 1}`, "this file was not made by vmdisk: name one that doesn't exist yet"},
		"it is of another one":   {`{"vmdiskResume": 1, "target": "/other"}`, "this file belongs to a conversion to /other: name another one, or remove it to start over"},
		"it is from the future":  {`{"vmdiskResume": 2}`, "this file was made by another version of vmdisk: remove it to start over"},
		"it is longer than ours": {strings.Repeat(" ", maxResumeFile+1), "this file was not made by vmdisk: name one that doesn't exist yet"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			state := write(t, test.content)
			want := ran{Code: exitUsage, Stderr: fmt.Sprintf("vmdisk: --resume %s: %s\n", state, test.want)}
			if diff := cmp.Diff(want, runHere(t, nil, "convert", "--resume", state, path, target)); diff != "" {
				t.Error(diff)
			}
			requireDisk(t, state, []byte(test.content))
		})
	}
	t.Run("a refused image leaves nothing", func(t *testing.T) {
		got := runHere(t, nil, "convert", "--resume", filepath.Join(dir, "state"), write(t, "<html>"), target)
		if left, err := filepath.Glob(filepath.Join(dir, ".*")); got.Code != exitRefused || err != nil || left != nil {
			t.Errorf("%+v; left: %v, %v", got, left, err)
		}
	})
}
