package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// asMain is the environment variable that makes this test's binary vmdisk itself, for what only a process can show.
const asMain = "VMDISK_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		code := Main()
		writePeak()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// ran is what came of a command line.
type ran struct {
	Code           int
	Stdout, Stderr string
}

// runHere runs a command line in this process. stdin may be nil.
func runHere(t *testing.T, stdin []byte, args ...string) ran {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.Write(stdin) // a command that doesn't read it breaks the pipe
		_ = w.Close()         // likewise
	}()
	defer func() {
		_ = r.Close() // so that the writer ends
		<-done
	}()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, r, &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// TestConvertsAndMapsAsQEMUDoes has images of every kind that QEMU makes, from a file, a pipe and a server.
func TestConvertsAndMapsAsQEMUDoes(t *testing.T) {
	for name, recipe := range imagetest.Recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, want := imagetest.Make(t, dir, recipe)
			mapped := qemuMap(t, "qcow2", path)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
			for kind, source := range map[string]string{"file": path, "pipe": "-", "URL": server.URL + "/disk"} {
				target := filepath.Join(dir, kind+".raw")
				if got := runHere(t, content, "convert", source, target); got != (ran{}) {
					t.Errorf("%s: %+v", kind, got)
				}
				requireDisk(t, target, want)
				if kind == "pipe" {
					continue // it can't be mapped
				}
				got := runHere(t, nil, "map", "-o", "json", source)
				if diff := cmp.Diff(mapped, parseMap(t, got.Stdout)); diff != "" || got.Code != 0 {
					t.Errorf("%s: %s%s", kind, diff, got.Stderr)
				}
			}
		})
	}
}

func requireDisk(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not the right %d", path, len(got), len(want))
	}
}

// TestARawDiskFromAPipeIsAsLongAsItWas ends with zeros, which nobody writes.
func TestARawDiskFromAPipeIsAsLongAsItWas(t *testing.T) {
	disk := append(imagetest.Disk(), make([]byte, 3<<20+100)...)
	target := filepath.Join(t.TempDir(), "disk.raw")
	if got := runHere(t, disk, "convert", "-", target); got != (ran{}) {
		t.Fatalf("%+v", got)
	}
	requireDisk(t, target, append(disk, make([]byte, 512-len(disk)%512)...))
}

// treeHash is the hash of a disk's content, in the simplest way.
func treeHash(disk []byte) string {
	root := sha256.New()
	for block := range slices.Chunk(disk, 4<<20) {
		leaf := sha256.Sum256(block)
		root.Write(leaf[:])
	}
	return fmt.Sprintf("sha256-4MiB:%x", root.Sum(nil))
}

func TestTheResultIsPrintedAsJSON(t *testing.T) {
	dir := t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{Compressed: true})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "disk.raw")
	tests := map[string]struct {
		source string
		want   convertResult
	}{
		"after success": {path, convertResult{Source: path, Target: target, Format: "qcow2", VirtualBytes: int64(len(disk)), ReadBytes: info.Size(), ContentHash: treeHash(disk)}},
		"after failure": {dir + "/none", convertResult{Target: target, ExitCode: 4, Message: "there is no file " + dir + "/none"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := runHere(t, nil, "convert", "--json", test.source, target)
			var result convertResult
			if err := json.Unmarshal([]byte(got.Stdout), &result); err != nil {
				t.Fatalf("%q: %v", got.Stdout, err)
			}
			if diff := cmp.Diff(test.want, result, cmpopts.IgnoreFields(convertResult{}, "Seconds", "WrittenBytes", "ContentHash")); diff != "" {
				t.Error(diff)
			}
			if (result.WrittenBytes > 0) != (got.Code == 0) || (result.ContentHash != "") != (got.Code == 0) || got.Code != result.ExitCode {
				t.Errorf("%d bytes written, exit code %d", result.WrittenBytes, got.Code)
			}
		})
	}
}

func TestProgressIsShownAsAsked(t *testing.T) {
	dir := t.TempDir()
	path, _ := imagetest.Make(t, dir, imagetest.Recipe{})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(mode string) string {
		got := runHere(t, nil, "convert", "--progress", mode, path, filepath.Join(dir, "disk.raw"))
		if got.Code != 0 || got.Stdout != "" {
			t.Errorf("%+v", got)
		}
		return strings.TrimSpace(got.Stderr)
	}
	for _, silent := range []string{"none", "auto"} { // a buffer is no terminal
		if got := shown(silent); got != "" {
			t.Errorf("%s: %q", silent, got)
		}
	}
	text := strings.Split(shown("json"), "\n")
	last, ok := job.ParseProgress(text[len(text)-1])
	if want := (job.Progress{DoneBytes: info.Size(), TotalBytes: info.Size()}); !ok || last != want {
		t.Errorf("json: %q", text)
	}
	if got := shown("bar"); !strings.Contains(got, "100 %") || !strings.Contains(got, "MiB of") {
		t.Errorf("bar: %q", got)
	}
}

// TestExitCodes has each code, with what the person reads.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{})
	backed := filepath.Join(dir, "backed.qcow2")
	imagetest.Run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-b", path, "-F", "qcow2", backed)
	page := write(t, "<html>not found")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	small := loopDevice(t, len(disk)/512*512-4096)
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: []byte("x"), Check: func(r *http.Request) int {
		switch r.URL.Path {
		case "/busy":
			return http.StatusServiceUnavailable
		case "/secret":
			return http.StatusUnauthorized
		default:
			return http.StatusNotFound
		}
	}})
	secure := sourcetest.ServeTLS(t, sourcetest.Behaviour{Content: disk})
	sum := sha256.Sum256([]byte("something else"))
	checksum := "sha256:" + hex.EncodeToString(sum[:])
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	actual := sha256.Sum256(content)
	full := smallFilesystem(t, 1<<20)

	target := filepath.Join(dir, "disk.raw")
	type want struct {
		code    int
		message string
	}
	tests := map[string]struct {
		args []string
		want want
	}{
		"done":                       {[]string{path, target}, want{0, ""}},
		"done, with all flags":       {[]string{"--checksum", "sha256:" + hex.EncodeToString(actual[:]), "--format", "qcow2", "--preallocation", "full", "--target-zeroed", "--memory", "64Mi", "--header", "A: b", path, target}, want{0, ""}},
		"one argument":               {[]string{path}, want{2, "vmdisk convert takes SOURCE and TARGET, and got 1 arguments: see 'vmdisk convert --help'"}},
		"an unknown flag":            {[]string{"--speed", "9", path, target}, want{2, "unknown flag: --speed: see 'vmdisk convert --help'"}},
		"a checksum that is none":    {[]string{"--checksum", "crc:00", path, target}, want{2, `--checksum: checksum "crc:00": write it as algorithm:hex, where the algorithm is md5, sha1, sha256 or sha512`}},
		"a size that is none":        {[]string{"--memory", "much", path, target}, want{2, `--memory is "much": give a size of at least 1Mi, such as 64Mi or 256Mi`}},
		"a format that is none":      {[]string{"--format", "qcow7", path, target}, want{2, `--format is "qcow7", which isn't read by this version, or is none: leave it out, and the image tells`}},
		"another preallocation":      {[]string{"--preallocation", "some", path, target}, want{2, `--preallocation is "some": off, falloc and full are possible`}},
		"another progress":           {[]string{"--progress", "some", path, target}, want{2, `--progress is "some": auto, bar, json and none are possible`}},
		"a scheme that isn't served": {[]string{"ftp://host/disk", target}, want{2, `"ftp://host/disk" is not an http or https URL`}},
		"a header that is none":      {[]string{"--header", "x", server.URL, target}, want{2, `extra header 1 is not of the form "Name: value"`}},
		"authorities that are none":  {[]string{"--cacert", page, server.URL, target}, want{2, fmt.Sprintf("%q holds no certificate in PEM form", page)}},
		"standard output":            {[]string{path, "-"}, want{2, `TARGET is "-": name a file or a block device; a disk with holes can't be written to standard output, but an image of it can, with '-O qcow2'`}},
		"a directory as the target":  {[]string{path, dir}, want{2, "TARGET " + dir + " is a directory: name a file in it"}},
		"a target in no directory":   {[]string{path, dir + "/no/disk"}, want{2, "TARGET " + dir + "/no/disk: there is no directory " + dir + "/no"}},
		"a target that is neither":   {[]string{path, "/dev/null"}, want{2, "TARGET /dev/null is neither a file nor a block device"}},
		"the source as the target":   {[]string{path, link}, want{2, "SOURCE and TARGET are the same: writing " + link + " would destroy what is read"}},
		"a backing file": {[]string{backed, target}, want{3, fmt.Sprintf("%s: the qcow2 image holds only its differences to a backing file, %q, which is never opened: "+
			"flatten it with 'qemu-img convert -O qcow2 IN OUT' and serve that", backed, path)}},
		"a web page":                {[]string{page, target}, want{3, page + ": this is a web page, not a disk image: check that the URL points to the file itself and not to a page that links to it"}},
		"another format":            {[]string{"--format", "qcow2", small, target}, want{3, small + ": this is a raw image, and a qcow2 image was asked for"}},
		"no file":                   {[]string{dir + "/none", target}, want{4, "there is no file " + dir + "/none"}},
		"a directory as the source": {[]string{dir, target}, want{4, dir + " is a directory, not a file or a block device"}},
		"no file on the server":     {[]string{server.URL + "/none", target}, want{4, "404 Not Found from " + server.URL + "/none"}},
		"a password is wanted": {[]string{server.URL + "/secret", target}, want{4, "401 Unauthorized from " + server.URL + "/secret: the server wants a user and password; " +
			"put them into the URL, as in https://user:password@host/"}},
		"an unknown authority": {[]string{secure.URL, target}, want{4, "the certificate of " + secure.URL + " is signed by an unknown authority, \"O=Acme Co\" (trusted are the system's): give that authority's certificate with --cacert"}},
		"a busy server":        {[]string{server.URL + "/busy", target}, want{5, "503 Service Unavailable from " + server.URL + "/busy"}},
		"nobody listens":       {[]string{"http://127.0.0.1:1/disk", target}, want{5, "connection refused by 127.0.0.1:1; nothing listens there, or a firewall or NetworkPolicy rejects it"}},
		"a small device": {[]string{path, small}, want{6, fmt.Sprintf("%s: the disk in the image has %d bytes, and the disk to be filled has %d: ask for one that is large enough",
			path, len(disk), len(disk)/512*512-4096)}},
		"no room to allocate": {[]string{"--preallocation", "falloc", path, full + "/disk"}, want{6, fmt.Sprintf("the disk needs a file of %d bytes, and the volume's filesystem has room for %d: "+
			"ask for a larger volume, which allows for the filesystem's own needs", len(disk), 1<<20)}},
		"another checksum": {[]string{"--checksum", checksum, path, target}, want{7, fmt.Sprintf("checksum mismatch: expected %s, the bytes have sha256:%x: "+
			"the file at the source is not the one that you expected, or the checksum is of another version", checksum, actual)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(target); err != nil {
				t.Fatal(err)
			}
			got := runHere(t, nil, append([]string{"convert"}, test.args...)...)
			message := strings.TrimSuffix(strings.TrimPrefix(got.Stderr, "vmdisk: "), "\n")
			if diff := cmp.Diff(test.want, want{got.Code, message}, cmp.AllowUnexported(want{})); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Stat(target); (err == nil) != (got.Code == 0) {
				t.Errorf("exit code %d, and the target: %v", got.Code, err)
			}
			requireNoLeftovers(t, dir)
		})
	}
	t.Run("a filesystem that gets full", func(t *testing.T) {
		got := runHere(t, nil, "convert", path, full+"/disk")
		if got.Code != exitTargetFull || !strings.Contains(got.Stderr, "the volume is full (no space left on device)") {
			t.Errorf("%+v", got)
		}
		if entries, err := os.ReadDir(full); err != nil || len(entries) > 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	})
}

func TestADeviceIsFilledToItsEnd(t *testing.T) {
	dir := t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{Compressed: true})
	for _, preallocation := range []string{"off", "falloc", "full"} {
		t.Run(preallocation, func(t *testing.T) {
			size := (len(disk)/4096 + 100) * 4096
			device := loopDevice(t, size)
			if err := os.WriteFile(device, bytes.Repeat([]byte("dirt"), size/4), 0); err != nil {
				t.Fatal(err)
			}
			if got := runHere(t, nil, "convert", "--preallocation", preallocation, path, device); got != (ran{}) {
				t.Fatalf("%+v", got)
			}
			requireDisk(t, device, append(bytes.Clone(disk), make([]byte, size-len(disk))...))
		})
	}
}

// TestADeviceInUseIsLeftAlone would be a person's lost disk.
func TestADeviceInUseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path, _ := imagetest.Make(t, dir, imagetest.Recipe{Empty: true})
	device := loopDevice(t, 64<<20)
	imagetest.Run(t, "mkfs.ext4", "-q", device)
	mounted := t.TempDir()
	imagetest.Run(t, "mount", device, mounted)
	t.Cleanup(func() { imagetest.Run(t, "umount", mounted) })
	want := ran{Code: 1, Stderr: "vmdisk: the block device " + device + " is in use: unmount it, or take it out of what it is a part of ('lsblk " + device + "' shows that)\n"}
	if diff := cmp.Diff(want, runHere(t, nil, "convert", path, device)); diff != "" {
		t.Error(diff)
	}
}

// TestASignalLeavesNoTarget stops a process that waits for the rest of its image.
func TestASignalLeavesNoTarget(t *testing.T) {
	path, _ := imagetest.Make(t, t.TempDir(), imagetest.Recipe{})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, StallAfter: len(content) / 2})
	for name, source := range map[string]string{"from a pipe": "-", "from a server": server.URL + "/disk"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(fmt.Sprintf("%s, %v", name, sig), func(t *testing.T) {
				dir := t.TempDir()
				target := filepath.Join(dir, "disk.raw")
				cmd := exec.Command(os.Args[0], "convert", "--progress", "json", source, target)
				cmd.Env = append(os.Environ(), asMain+"=1")
				stdin, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				stderr, err := cmd.StderrPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if source == "-" {
					if _, err := stdin.Write(content[:len(content)/2]); err != nil {
						t.Fatal(err)
					}
				}
				first := make([]byte, 1)
				if _, err := io.ReadFull(stderr, first); err != nil { // a line of progress: it is at work
					t.Fatal(err)
				}
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(stderr)
				if err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // its exit code is looked at
				if code := cmd.ProcessState.ExitCode(); code != exitStopped || !strings.HasSuffix(string(text), "vmdisk: stopped before it was done\n") {
					t.Errorf("exit code %d, %q", code, text)
				}
				if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
					t.Errorf("left: %v, %v", entries, err)
				}
			})
		}
	}
}

// TestAStoppedCommandKeepsTheOldFile has a context that is done.
func TestAStoppedCommandKeepsTheOldFile(t *testing.T) {
	path, _ := imagetest.Make(t, t.TempDir(), imagetest.Recipe{})
	target := write(t, "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := run(ctx, []string{"convert", path, target}, nil, io.Discard, io.Discard); code != exitStopped {
		t.Errorf("exit code %d", code)
	}
	requireDisk(t, target, []byte("old"))
}

func TestALinkIsFollowedAndNotReplaced(t *testing.T) {
	path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipe{})
	target := write(t, "old")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if got := runHere(t, nil, "convert", path, link); got != (ran{}) {
		t.Errorf("%+v", got)
	}
	requireDisk(t, target, disk)
}

// TestANamedPipeIsASource is what a shell's <(command) is.
func TestANamedPipeIsASource(t *testing.T) {
	dir := t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() { written <- os.WriteFile(pipe, content, 0) }()
	target := filepath.Join(dir, "disk.raw")
	if got := runHere(t, nil, "convert", pipe, target); got != (ran{}) {
		t.Errorf("%+v", got)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	requireDisk(t, target, disk)
}

func requireNoLeftovers(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".*.part"))
	if err != nil || left != nil {
		t.Errorf("left: %v, %v", left, err)
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loopDevice makes a block device of so many bytes. It needs root.
func loopDevice(t *testing.T, size int) string {
	t.Helper()
	backing := filepath.Join(t.TempDir(), "backing")
	if err := os.WriteFile(backing, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", backing).Output()
	if err != nil {
		t.Fatalf("losetup: %v (this test needs root)", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { imagetest.Run(t, "losetup", "--detach", device) })
	return device
}

// smallFilesystem mounts a filesystem of so many bytes. It needs root.
func smallFilesystem(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	imagetest.Run(t, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "vmdisk-test", dir)
	t.Cleanup(func() { imagetest.Run(t, "umount", dir) })
	return dir
}
