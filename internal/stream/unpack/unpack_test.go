package unpack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/stream"
)

// sample is some MiB of zeros, noise and text in runs, as a disk has them. It is always the same.
func sample(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for at := 0; at < n; {
		run := b[at:min(n, at+1+r.IntN(200_000))]
		switch r.IntN(4) {
		case 0:
		case 1:
			for i := range run {
				run[i] = byte(r.Uint32())
			}
		default:
			for i := range run {
				run[i] = "some text, and some more of it; "[(i+r.IntN(2))%32]
			}
		}
		at += len(run)
	}
	return b
}

// tool gives input to a command and answers its output.
func tool(t testing.TB, input []byte, command ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Fatalf("%s is missing: install it (Debian: apt-get install gzip bzip2 xz-utils zstd tar); this test compares with it", command[0])
	}
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(input)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, messages.String())
	}
	return out.Bytes()
}

// packer is one of the packings and its tool.
type packer struct {
	name string
	// commands are ways to pack that make different files.
	commands [][]string
	open     func(r io.Reader, o Options) (io.ReadCloser, error)
}

func packers() []packer {
	plain := func(f func(io.Reader) io.ReadCloser) func(io.Reader, Options) (io.ReadCloser, error) {
		return func(r io.Reader, _ Options) (io.ReadCloser, error) { return f(r), nil }
	}
	return []packer{
		{"gzip", [][]string{{"gzip", "-1"}, {"gzip", "-6"}, {"gzip", "-9"}}, plain(Gzip)},
		{"bzip2", [][]string{{"bzip2", "-1"}, {"bzip2", "-9"}}, plain(Bzip2)},
		{"zstd", [][]string{{"zstd", "-1"}, {"zstd", "-3", "--no-check"}, {"zstd", "-19", "--check"}, {"zstd", "--fast=5"}, {"pzstd", "-q", "-p", "2"}},
			func(r io.Reader, o Options) (io.ReadCloser, error) { return Zstd(r, o) }},
		{"xz", [][]string{
			{"xz", "-0", "-T1"}, {"xz", "-6", "-T2", "--block-size=300KiB"}, {"xz", "-6", "-T1", "--block-size=1MiB"}, {"xz", "-9e", "-T1"}, {"xz", "-T2", "--check=none"},
			{"xz", "-T2", "--check=crc32"}, {"xz", "-T1", "--check=sha256"}, {"xz", "--lzma2=preset=3,lc=0,lp=4,pb=4", "-T1"}, {"xz", "--lzma2=dict=4KiB,lc=1,lp=3,pb=0", "-T2", "--block-size=1MiB"},
		}, func(r io.Reader, o Options) (io.ReadCloser, error) { return XZ(r, o), nil }},
	}
}

// read unpacks all of a file.
func read(p packer, file io.Reader, o Options) ([]byte, error) {
	r, err := p.open(file, o)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(r)
	return got, errors.Join(err, r.Close())
}

func options() Options { return Options{MemoryBytes: 64 << 20, Workers: 2} }

func TestWhatTheToolsPackIsUnpacked(t *testing.T) {
	want := sample(2 << 20)
	for _, p := range packers() {
		for _, command := range p.commands {
			t.Run(strings.Join(command, " "), func(t *testing.T) {
				t.Parallel()
				for name, content := range map[string][]byte{"some MiB": want, "nothing": nil, "a byte": []byte("a"), "zeros": make([]byte, 1<<20)} {
					packed := tool(t, content, append(slices.Clone(command), "-c")...)
					for _, o := range []Options{options(), {MemoryBytes: 64 << 20, Workers: 1}} {
						got, err := read(p, bytes.NewReader(packed), o)
						if err != nil || !bytes.Equal(got, content) {
							t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(content), err)
						}
					}
					got, err := read(p, iotest.OneByteReader(bytes.NewReader(packed[:min(len(packed), 50_000)])), options())
					if len(packed) <= 50_000 && (err != nil || !bytes.Equal(got, content)) {
						t.Errorf("%s, byte by byte: %d bytes of %d, %v", name, len(got), len(content), err)
					}
				}
			})
		}
	}
}

func TestSeveralStreamsOneBehindTheOtherAreOne(t *testing.T) {
	a, b := sample(300_000), []byte("the end")
	for _, p := range packers() {
		first := append(slices.Clone(p.commands[0]), "-c")
		second := append(slices.Clone(p.commands[1]), "-c")
		packed := slices.Concat(tool(t, a, first...), tool(t, nil, second...), tool(t, b, second...))
		got, err := read(p, bytes.NewReader(packed), options())
		if err != nil || !bytes.Equal(got, slices.Concat(a, b)) {
			t.Errorf("%s: %d bytes, %v", p.name, len(got), err)
		}
	}
}

// kindOf is the kind of an error, or a text for what is none.
func kindOf(err error) string {
	var format *stream.FormatError
	switch {
	case err == nil:
		return "none"
	case !errors.As(err, &format):
		return err.Error()
	}
	return [...]string{"corrupt", "truncated", "unsupported", "too much memory"}[format.Kind]
}

func TestWhatFollowsTheEndIsTrailingGarbage(t *testing.T) {
	content := sample(100_000)
	for _, p := range packers() {
		packed := tool(t, content, append(slices.Clone(p.commands[0]), "-c")...)
		for _, garbage := range []string{"a", "abc", "garbage", "\x00\x00\x00a", strings.Repeat("x", 100_000)} {
			got, err := read(p, strings.NewReader(string(packed)+garbage), options())
			if p.name == "bzip2" && len(garbage) < 2 { // might have become the next stream's mark
				continue
			}
			if kindOf(err) != "corrupt" || !strings.Contains(err.Error(), "trailing garbage") {
				t.Errorf("%s, %.10q: %d bytes, %v", p.name, garbage, len(got), err)
			}
		}
	}
}

func TestZerosBehindTheEndArePaddingWhereTheFormatHasIt(t *testing.T) {
	content := sample(100_000)
	for _, p := range packers() {
		if p.name != "gzip" && p.name != "xz" {
			continue
		}
		packed := tool(t, content, append(slices.Clone(p.commands[0]), "-c")...)
		for _, n := range []int{4, 512, 1 << 20} {
			got, err := read(p, bytes.NewReader(slices.Concat(packed, make([]byte, n))), options())
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%s, %d zeros: %v", p.name, n, err)
			}
		}
	}
}

func TestAStreamThatIsCutOffIsTruncated(t *testing.T) {
	content := sample(250_000)
	for _, p := range packers() {
		for _, command := range p.commands {
			packed := tool(t, content, append(slices.Clone(command), "-c")...)
			places := []int{0, 1, 3, 5, 8, 11, 17, 30, len(packed) / 3, len(packed) / 2}
			for n := 1; n < 36; n += 1 + n/8 {
				places = append(places, len(packed)-n)
			}
			for _, at := range places {
				got, err := read(p, bytes.NewReader(packed[:at]), options())
				if kindOf(err) != "truncated" {
					t.Errorf("%s, cut after %d of %d bytes: %s, %d bytes", strings.Join(command, " "), at, len(packed), kindOf(err), len(got))
				}
				if !bytes.HasPrefix(content, got) {
					t.Errorf("%s, cut after %d: not the beginning of what was packed", p.name, at)
				}
			}
		}
	}
}

func TestAStreamWithAWrongByteIsNeverUnpackedToSomethingElse(t *testing.T) {
	content := sample(60_000)
	for _, p := range packers() {
		for _, command := range p.commands {
			if slices.Contains(command, "--no-check") || slices.Contains(command, "--check=none") {
				continue
			}
			packed := tool(t, content, append(slices.Clone(command), "-c")...)
			for at := 0; at < len(packed); at += 1 + at/5 {
				spoilt := bytes.Clone(packed)
				spoilt[at] ^= 0x10
				got, err := read(p, bytes.NewReader(spoilt), options())
				if err == nil && !bytes.Equal(got, content) {
					t.Errorf("%s: byte %d was changed, and %d bytes came out without an error", strings.Join(command, " "), at, len(got))
				}
				if kind := kindOf(err); err != nil && !slices.Contains([]string{"corrupt", "truncated", "unsupported", "too much memory"}, kind) {
					t.Errorf("%s: byte %d was changed: %s", strings.Join(command, " "), at, kind)
				}
			}
		}
	}
}

func TestTheErrorOfTheReaderBelowIsAnsweredAsItIs(t *testing.T) {
	content := sample(300_000)
	for _, cause := range []error{errors.New("reset"), io.ErrUnexpectedEOF, &stream.ChecksumError{}} {
		for _, p := range packers() {
			packed := tool(t, content, append(slices.Clone(p.commands[0]), "-c")...)
			for _, at := range []int{0, 5, 20_000, len(packed) - 3, len(packed)} {
				_, err := read(p, io.MultiReader(bytes.NewReader(packed[:at]), iotest.ErrReader(cause)), options())
				if !errors.Is(err, cause) || kindOf(err) == "truncated" {
					t.Errorf("%s, after %d bytes: %v", p.name, at, err)
				}
			}
		}
	}
}

func TestAWindowAboveTheLimitIsAnError(t *testing.T) {
	content := sample(3 << 20)
	small := Options{MemoryBytes: 1 << 20, Workers: 2}
	for _, test := range []struct {
		packer  int
		command []string
		want    string
	}{
		{2, []string{"zstd", "-1", "--long=22", "-c"}, "too much memory"},
		{2, []string{"zstd", "-1", "-c"}, "none"},
		{3, []string{"xz", "--lzma2=preset=0,dict=8MiB", "-T1", "-c"}, "too much memory"},
		{3, []string{"xz", "--lzma2=preset=0,dict=8MiB", "-T2", "--block-size=2MiB", "-c"}, "too much memory"},
		{3, []string{"xz", "-0", "-T2", "--block-size=2MiB", "-c"}, "none"},
		{3, []string{"xz", "--lzma2=preset=0,dict=8MiB", "-T2", "--block-size=400KiB", "-c"}, "none"},
	} {
		got, err := read(packers()[test.packer], bytes.NewReader(tool(t, content, test.command...)), small)
		if diff := cmp.Diff(test.want, kindOf(err)); diff != "" || err == nil && !bytes.Equal(got, content) {
			t.Errorf("%s: %v %s", strings.Join(test.command, " "), err, diff)
		}
	}
}

// repeated yields a text again and again, without an end.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		more := copy(p[n:], r.text[r.at:])
		n, r.at = n+more, (r.at+more)%len(r.text)
	}
	return n, nil
}

func TestAStreamThatGoesOnWithNothingInItEnds(t *testing.T) {
	for _, p := range packers() {
		begin := tool(t, []byte("a"), append(slices.Clone(p.commands[0]), "-c")...)
		empty := string(tool(t, nil, append(slices.Clone(p.commands[0]), "-c")...))
		without := map[string]string{"empty streams": empty}
		switch p.name {
		case "gzip":
			without["padding"] = "\x00"
		case "xz":
			without["padding"] = "\x00"
		case "zstd":
			without["frames to be skipped"] = "\x50\x2a\x4d\x18\x00\x00\x01\x00" + strings.Repeat("x", 1<<16)
		}
		for name, text := range without {
			got, err := read(p, io.MultiReader(bytes.NewReader(begin), &repeated{text: strings.Repeat(text, 1+4096/len(text))}), Options{MemoryBytes: 1 << 20, Workers: 2})
			if kindOf(err) != "corrupt" || !strings.Contains(err.Error(), "nothing in them") || len(got) > 1 {
				t.Errorf("%s, %s: %d bytes, %v", p.name, name, len(got), err)
			}
		}
	}
}

func TestFiltersAreRefusedByName(t *testing.T) {
	for filter, name := range map[string]string{"--x86": "x86", "--delta=dist=4": "Delta"} {
		packed := tool(t, sample(1000), "xz", "-c", filter, "--lzma2=preset=6")
		_, err := read(packers()[3], bytes.NewReader(packed), options())
		if kindOf(err) != "unsupported" || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", filter, err)
		}
	}
}

func TestAReaderThatIsClosedEarlyLeavesNothingRunning(t *testing.T) {
	for _, p := range packers() {
		packed := tool(t, sample(3<<20), append(slices.Clone(p.commands[1]), "-c")...)
		r, err := p.open(bytes.NewReader(packed), options())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(make([]byte, 10)); err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
