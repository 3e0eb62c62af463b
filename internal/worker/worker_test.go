package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/job"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/transfer"
)

// options are those of a worker whose http sources never pause and know no proxy.
func options() Options {
	return Options{HTTP: http.Options{
		Proxy: func(*url.URL) (*url.URL, error) { return nil, nil },
		Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}}
}

func fileTarget(t *testing.T, size int64) job.Target {
	return job.Target{Kind: job.File, Path: filepath.Join(t.TempDir(), "disk.img"), SizeBytes: size}
}

func httpSpec(source job.HTTP, target job.Target) job.Spec {
	return job.Spec{Version: job.Version, Disk: "tenant/disk", Attempt: 1, Source: job.Source{HTTP: &source}, Target: target}
}

func sha256Of(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

// makeImage makes a qcow2 image of a disk.
func makeImage(t *testing.T, r imagetest.Recipe) (content, disk []byte) {
	t.Helper()
	path, disk := imagetest.Make(t, t.TempDir(), r)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content, disk
}

func TestAnImageBecomesADisk(t *testing.T) {
	qcow2, disk := makeImage(t, imagetest.Recipe{Compressed: true, Options: "compression_type=zstd"})
	late, _ := makeImage(t, imagetest.Recipe{Options: "cluster_size=512", Steps: []string{"resize 32M", fmt.Sprint("resize --shrink ", imagetest.DiskBytes)}})
	servers := map[string]sourcetest.Behaviour{
		"from a good server":                 {},
		"from a server without ranges":       {NoRange: true},
		"from a server that sends no length": {NoRange: true, Chunked: true},
		"over broken connections":            {CutAfter: 1 << 20},
	}
	for name, behaviour := range servers {
		for shape, content := range map[string][]byte{"qcow2": qcow2, "qcow2 with its tables at the end": late, "raw": disk} {
			format, _, _ := strings.Cut(shape, " ")
			for _, kind := range []job.Kind{job.File, job.Block} {
				t.Run(shape+" "+name+" to a "+string(kind), func(t *testing.T) {
					b := behaviour
					b.Content = content
					server := sourcetest.Serve(t, b)
					target := fileTarget(t, int64(len(disk))+1<<20)
					if kind == job.Block {
						target = job.Target{Kind: job.Block, Path: dirtyDevice(t, target.SizeBytes), SizeBytes: target.SizeBytes}
					}
					result := Run(t.Context(), httpSpec(job.HTTP{URL: server.URL + "/disk", Checksum: sha256Of(content)}, target), options())
					want := job.Result{Version: job.Version, Outcome: job.Succeeded, Format: format, VirtualBytes: int64(len(disk))}
					if diff := cmp.Diff(want, result, cmpopts.IgnoreFields(job.Result{}, "ReadBytes", "WrittenBytes", "ContentHash")); diff != "" {
						t.Error(diff)
					}
					if !strings.HasPrefix(result.ContentHash, "sha256-4MiB:") {
						t.Errorf("the content hash is %q", result.ContentHash)
					}
					if excess := result.ReadBytes - int64(len(content)); excess < 0 || excess > 64<<10 {
						t.Errorf("%d bytes were read of %d", result.ReadBytes, len(content))
					}
					got, err := os.ReadFile(target.Path)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, append(bytes.Clone(disk), make([]byte, 1<<20)...)) {
						t.Error("the disk is not the image's, with zeros behind it")
					}
				})
			}
		}
	}
}

// dirtyDevice makes a loop device that is full of something. It needs root.
func dirtyDevice(t *testing.T, size int64) string {
	t.Helper()
	backing := filepath.Join(t.TempDir(), "backing")
	if err := os.WriteFile(backing, bytes.Repeat([]byte("dirt"), int(size/4)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", backing).CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v (this test needs root)\n%s", err, out)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach: %v\n%s", err, out)
		}
	})
	return device
}

func TestABlankDiskIsZero(t *testing.T) {
	for name, target := range map[string]job.Target{
		"a file":   fileTarget(t, 1<<20),
		"a device": {Kind: job.Block, Path: dirtyDevice(t, 1<<20), SizeBytes: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := options()
			o.Stdout = &out
			spec := job.Spec{Version: job.Version, Source: job.Source{Blank: &job.Blank{}}, Target: target}
			want := job.Result{Version: job.Version, Outcome: job.Succeeded, Format: "raw", VirtualBytes: 1 << 20}
			if diff := cmp.Diff(want, Run(t.Context(), spec, o)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(job.Progress{DoneBytes: 1 << 20, TotalBytes: 1 << 20}.Line()+"\n", out.String()); diff != "" {
				t.Error(diff)
			}
			got, err := os.ReadFile(target.Path)
			if err != nil || !bytes.Equal(got, make([]byte, 1<<20)) {
				t.Errorf("%d bytes, not all zero; %v", len(got), err)
			}
		})
	}
}

// TestResultsSayWhatHappened has every kind of end. In messages, $URL stands for the server's address, $PATH for the
// target's path.
func TestResultsSayWhatHappened(t *testing.T) {
	qcow2, disk := makeImage(t, imagetest.Recipe{Compressed: true})
	size := int64(len(disk))
	backed := bytes.Clone(qcow2)
	copy(backed[8:], []byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 11})
	copy(backed[512:], "/etc/passwd")
	page := []byte("<!DOCTYPE html><html><body>" + strings.Repeat("sign in ", 100))
	tests := map[string]struct {
		behaviour sourcetest.Behaviour
		change    func(*job.Spec)
		want      job.Result
	}{
		"a missing file": {
			behaviour: sourcetest.Behaviour{Status: []int{404}},
			want:      job.Result{Outcome: job.SourceFailed, Reason: "NotFound", Message: "404 Not Found from $URL/disk"},
		},
		"a file behind a password": {
			behaviour: sourcetest.Behaviour{Status: []int{401}},
			want:      job.Result{Outcome: job.SourceFailed, Reason: "Unauthorized", Message: "401 Unauthorized from $URL/disk: the server wants a user and password; check the Secret that secretRef names"},
		},
		"a busy server": {
			behaviour: sourcetest.Behaviour{Status: []int{503}, Header: nethttp.Header{"Retry-After": {"30"}}},
			want:      job.Result{Outcome: job.SourceFailed, Reason: "ServerError", Message: "503 Service Unavailable from $URL/disk", RetryAfterSeconds: 30},
		},
		"a host that doesn't exist": {
			change: func(s *job.Spec) { s.Source.HTTP.URL = "http://does-not-exist.invalid/disk" },
			want:   job.Result{Outcome: job.SourceFailed, Reason: "NoSuchHost", Message: `no such host "does-not-exist.invalid"`},
		},
		"a URL that isn't one": {
			change: func(s *job.Spec) { s.Source.HTTP.URL = "ftp://host/disk" },
			want:   job.Result{Outcome: job.Refused, Reason: "InvalidURL", Message: `"ftp://host/disk" is not an http or https URL`},
		},
		"an image that is larger than the disk": {
			behaviour: sourcetest.Behaviour{Content: qcow2},
			change:    func(s *job.Spec) { s.Target.SizeBytes = size - 512 },
			want:      job.Result{Outcome: job.Refused, Reason: "ImageLargerThanDisk", Message: fmt.Sprintf("$URL/disk: the disk in the image has %d bytes, and the disk to be filled has %d: ask for one that is large enough", size, size-512), Format: "qcow2", VirtualBytes: size},
		},
		"a web page": {
			behaviour: sourcetest.Behaviour{Content: page},
			want:      job.Result{Outcome: job.Refused, Reason: "NotADisk", Message: "$URL/disk: this is a web page, not a disk image: check that the URL points to the file itself and not to a page that links to it"},
		},
		"a backing file": {
			behaviour: sourcetest.Behaviour{Content: backed},
			want:      job.Result{Outcome: job.Refused, Reason: "BackingFile", Message: `$URL/disk: the qcow2 image holds only its differences to a backing file, "/etc/passwd", which is never opened: flatten it with 'qemu-img convert -O qcow2 IN OUT' and serve that`},
		},
		"another checksum": {
			behaviour: sourcetest.Behaviour{Content: qcow2},
			change:    func(s *job.Spec) { s.Source.HTTP.Checksum = sha256Of(nil) },
			want:      job.Result{Outcome: job.Refused, Reason: "ChecksumMismatch", Message: "$URL/disk: checksum mismatch: expected " + sha256Of(nil) + ", the bytes have " + sha256Of(qcow2) + ": the file at the source is not the one that was expected, or the checksum is outdated", Format: "qcow2", VirtualBytes: size},
		},
		"a checksum that is none": {
			change: func(s *job.Spec) { s.Source.HTTP.Checksum = "crc32:00" },
			want:   job.Result{Outcome: job.Refused, Reason: "InvalidChecksum", Message: `checksum "crc32:00": write it as algorithm:hex, where the algorithm is md5, sha1, sha256 or sha512`},
		},
		"a connection that breaks for good": {
			behaviour: sourcetest.Behaviour{Content: disk, CutAfter: 1 << 20, NoRange: true},
			want:      job.Result{Outcome: job.SourceFailed, Reason: "ConnectionReset", Message: fmt.Sprintf("the connection broke while reading from $URL/disk (after 1048576 of %d bytes; the server can't continue where it stopped: it has no ranges)", size), Format: "raw"},
		},
		"no directory for the file": {
			change: func(s *job.Spec) { s.Target.Path = "/none/disk.img" },
			want:   job.Result{Outcome: job.TargetFailed, Reason: "Missing", Message: "look at the filesystem of /none: no such file or directory"},
		},
		"an address out of the job's reach": {
			change: func(s *job.Spec) {
				s.Egress = &job.Egress{Deny: job.Internal()}
				s.Source.HTTP.URL = "http://127.0.0.1/disk"
			},
			want: job.Result{Outcome: job.SourceFailed, Reason: "AddressForbidden", Message: "127.0.0.1 is internal to the cluster, its nodes or their network (address 127.0.0.1), and not read from here: use a public server, or ask the administrator to allow that address"},
		},
		"a reach that can't be read": {
			change: func(s *job.Spec) { s.Egress = &job.Egress{Deny: []string{"ten"}} },
			want:   job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: `the job's egress can't be read: "ten" is not a range of addresses such as 10.0.0.0/8`},
		},
		"a target of no kind": {
			change: func(s *job.Spec) { s.Target.Kind = "tape" },
			want:   job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: `the job's target is of kind "tape"; file and block are known`},
		},
		"a target of no size": {
			change: func(s *job.Spec) { s.Target.SizeBytes = 0 },
			want:   job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: "the job's target has a size of 0 bytes"},
		},
		"two sources": {
			change: func(s *job.Spec) { s.Source.Blank = &job.Blank{} },
			want:   job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: "the job must have exactly one source"},
		},
		"no source": {
			change: func(s *job.Spec) { s.Source.HTTP = nil },
			want:   job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: "the job must have exactly one source"},
		},
		"a job of another version": {
			change: func(s *job.Spec) { s.Version = 9 },
			want:   job.Result{Outcome: job.Broken, Reason: "InvalidJob", Message: "the job has version 9, and this worker knows version 1"},
		},
		"a Secret that isn't mounted": {
			change: func(s *job.Spec) { s.Source.HTTP.CredentialsDir = "/none" },
			want:   job.Result{Outcome: job.SourceFailed, Reason: "SecretUnreadable", Message: "/none can't be read: open /none: no such file or directory"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := sourcetest.Serve(t, test.behaviour)
			target := fileTarget(t, size)
			spec := httpSpec(job.HTTP{URL: server.URL + "/disk?token=secret"}, target)
			if test.change != nil {
				test.change(&spec)
			}
			result := Run(t.Context(), spec, options())
			test.want.Version = job.Version
			test.want.Message = strings.ReplaceAll(test.want.Message, "$URL", server.URL)
			if diff := cmp.Diff(test.want, result, cmpopts.IgnoreFields(job.Result{}, "ReadBytes", "WrittenBytes")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAWorkerThatIsToldToStopSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: imagetest.Disk(), StallAfter: 2 << 20})
	o := options()
	o.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	result := Run(ctx, httpSpec(job.HTTP{URL: server.URL}, fileTarget(t, imagetest.DiskBytes)), o)
	want := job.Result{Version: job.Version, Outcome: job.Interrupted, Reason: "Interrupted", Message: "the worker was told to stop before it was done", Format: "raw", VirtualBytes: imagetest.DiskBytes}
	if diff := cmp.Diff(want, result, cmpopts.IgnoreFields(job.Result{}, "ReadBytes", "WrittenBytes")); diff != "" {
		t.Error(diff)
	}
}

func TestAPanicIsAResult(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: imagetest.Disk()})
	var log bytes.Buffer
	o := options()
	o.Stderr = &log
	o.Stdout = writerFunc(func([]byte) (int, error) { panic("oh") })
	result := Run(t.Context(), httpSpec(job.HTTP{URL: server.URL}, fileTarget(t, imagetest.DiskBytes)), o)
	want := job.Result{Version: job.Version, Outcome: job.Broken, Reason: "InternalError", Message: "the worker failed by a fault of its own (panic: oh): please report it, with this worker's log"}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(log.String(), "worker_test.go") {
		t.Error("the log has no stack")
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestSecretsAreReadAsTheKubeletMountsThem(t *testing.T) {
	mount := func(files map[string]string) string {
		dir := t.TempDir()
		data := filepath.Join(dir, "..2026_11_30")
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(data, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("..2026_11_30", filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	spec := job.HTTP{
		URL: "https://host/disk", Headers: []string{"A: 1"},
		HeaderDirs:         []string{mount(map[string]string{"x": "B: 2\n", "y": "C: 3"}), mount(map[string]string{"z": "D: 4"})},
		CredentialsDir:     mount(map[string]string{"accessKeyId": "user\n", "secretKey": " pw\n", "other": "x"}),
		CADir:              mount(map[string]string{"ca.crt": "one", "other.pem": "two"}),
		InsecureSkipVerify: true,
	}
	got, err := httpOptions(spec, http.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := http.Options{
		URL: "https://host/disk", User: "user", Password: "pw", Headers: []string{"A: 1", "B: 2", "C: 3", "D: 4"},
		CAs: map[string][]byte{"ca.crt": []byte("one"), "other.pem": []byte("two")}, InsecureSkipVerify: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTheNewestCheckpointIsOnEachLine has one that comes before any progress, and one within the interval: each is printed at once.
func TestTheNewestCheckpointIsOnEachLine(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out, now: func() time.Time { return time.Unix(0, 0) }, interval: time.Second}
	first, second := transfer.Checkpoint{Mark: 1}, transfer.Checkpoint{Mark: 2}
	keep := func(c transfer.Checkpoint) {
		if err := p.checkpoint(c); err != nil {
			t.Fatal(err)
		}
	}
	keep(first)
	p.progress(3, 9)
	keep(second)
	last, err := p.finish()
	if err != nil {
		t.Fatal(err)
	}
	var want string
	for _, line := range []job.Progress{{Checkpoint: first.Encode()}, {DoneBytes: 3, TotalBytes: 9, Checkpoint: second.Encode()}} {
		want += line.Line() + "\n"
	}
	if diff := cmp.Diff(want, out.String()); diff != "" || last.Checkpoint != second.Encode() {
		t.Errorf("%s%+v", diff, last)
	}
}

// TestTheNextAttemptGoesOn has a server that goes away in the middle, and is back for the second attempt.
func TestTheNextAttemptGoesOn(t *testing.T) {
	content := append(imagetest.Disk(), imagetest.Disk()...)
	size := int64(len(content))
	for _, kind := range []job.Kind{job.File, job.Block} {
		t.Run(string(kind), func(t *testing.T) {
			server := &vanishing{content: content}
			server.left.Store(size * 3 / 4)
			web := httptest.NewServer(server)
			defer web.Close()
			target := fileTarget(t, size)
			if kind == job.Block {
				target = job.Target{Kind: job.Block, Path: dirtyDevice(t, size), SizeBytes: size}
			}
			spec := httpSpec(job.HTTP{URL: web.URL + "/disk", Checksum: sha256Of(content)}, target)
			first := Run(t.Context(), spec, options())
			if first.Outcome != job.SourceFailed || first.Checkpoint == "" || len(first.Checkpoint) > 1<<10 {
				t.Fatalf("%+v", first)
			}
			server.left.Store(1 << 40)
			spec.Checkpoint = first.Checkpoint
			second := Run(t.Context(), spec, options())
			want := job.Result{Version: job.Version, Outcome: job.Succeeded, Format: "raw", VirtualBytes: size}
			if diff := cmp.Diff(want, second, cmpopts.IgnoreFields(job.Result{}, "ReadBytes", "WrittenBytes", "ContentHash", "ResumedAt")); diff != "" {
				t.Error(diff)
			}
			if second.ResumedAt == 0 || second.ReadBytes > size-second.ResumedAt+2<<20 {
				t.Errorf("%d bytes were read from %d on", second.ReadBytes, second.ResumedAt)
			}
			if got, err := os.ReadFile(target.Path); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the disk is not the image's, %v", err)
			}
		})
	}
}

// TestAWorkerWithACheckpointNeverClears has a source that is another version than the checkpoint's. The disk must stay as it is until the
// checkpoint is forgotten: a crash, and the old version's return, would lead a later attempt onto holes.
func TestAWorkerWithACheckpointNeverClears(t *testing.T) {
	content := append(imagetest.Disk(), imagetest.Disk()...)
	for _, kind := range []job.Kind{job.File, job.Block} {
		t.Run(string(kind), func(t *testing.T) {
			server := &vanishing{content: content}
			server.left.Store(int64(len(content)) * 3 / 4)
			web := httptest.NewServer(server)
			defer web.Close()
			target := fileTarget(t, int64(len(content)))
			if kind == job.Block {
				target = job.Target{Kind: job.Block, Path: dirtyDevice(t, target.SizeBytes), SizeBytes: target.SizeBytes}
			}
			spec := httpSpec(job.HTTP{URL: web.URL + "/disk"}, target)
			spec.Checkpoint = Run(t.Context(), spec, options()).Checkpoint
			before, err := os.ReadFile(target.Path)
			if err != nil {
				t.Fatal(err)
			}
			server.left.Store(1 << 40)
			server.content = content[:len(content)-4096]
			got := Run(t.Context(), spec, options())
			want := job.Result{Version: job.Version, Outcome: job.Interrupted, Reason: "StartsOver", Message: "the import starts over: the source has changed", StartsOver: "the source has changed"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if after, err := os.ReadFile(target.Path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the disk was changed, %v", err)
			}
		})
	}
}

// vanishing is a web server that is gone when it has sent so many bytes.
type vanishing struct {
	content []byte
	left    atomic.Int64
}

// ServeHTTP implements http.Handler.
func (v *vanishing) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	if v.left.Load() <= 0 {
		nethttp.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", `"1"`)
	nethttp.ServeContent(vanishingWriter{w, v}, r, "", time.Time{}, bytes.NewReader(v.content))
}

type vanishingWriter struct {
	nethttp.ResponseWriter
	server *vanishing
}

func (w vanishingWriter) Write(p []byte) (int, error) {
	if w.server.left.Add(-int64(len(p))) <= 0 {
		panic(nethttp.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(p)
}

func TestProgressIsPrintedOnceInAnInterval(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := &printer{out: &out, now: func() time.Time { return now }, interval: time.Second}
	for _, step := range []struct {
		after time.Duration
		done  int64
	}{{0, 1}, {400 * time.Millisecond, 2}, {500 * time.Millisecond, 3}, {200 * time.Millisecond, 4}, {0, 5}, {time.Hour, 6}, {time.Hour, 6}, {0, 7}} {
		now = now.Add(step.after)
		p.progress(step.done, 7)
	}
	if _, err := p.finish(); err != nil {
		t.Fatal(err)
	}
	var want string
	for _, done := range []int64{1, 4, 6, 7} {
		want += job.Progress{DoneBytes: done, TotalBytes: 7}.Line() + "\n"
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestScratchIsUsedWhereTheJobAllowsIt(t *testing.T) {
	content, disk := makeImage(t, imagetest.Recipe{Options: "cluster_size=512,preallocation=full", Empty: true, Steps: []string{"resize 16M", "io write -P 7 14M 512k"}})
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, NoRange: true})
	o := options()
	o.Limits.MemoryBytes = 4 << 20
	spec := httpSpec(job.HTTP{URL: server.URL + "/disk", Checksum: sha256Of(content)}, fileTarget(t, int64(len(disk))))
	got := Run(t.Context(), spec, o)
	if got.Outcome != job.Refused || got.Reason != "NeedsRandomAccess" || !strings.HasSuffix(got.Message, ", or ask the administrator to allow scratch (vmdisk's --scratch-size)") {
		t.Errorf("without scratch: %+v", got)
	}
	spec.Scratch = &job.Scratch{Path: t.TempDir(), Bytes: int64(len(content))}
	got = Run(t.Context(), spec, o)
	if got.Outcome != job.Succeeded || got.Format != "qcow2" {
		t.Fatalf("with scratch: %+v", got)
	}
	if b, err := os.ReadFile(spec.Target.Path); err != nil || !bytes.Equal(b, disk) {
		t.Errorf("the disk is not the image's (%v)", err)
	}
}
