package transfer

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
)

// pack gives bytes to one of the packing tools and answers its output.
func pack(t testing.TB, input []byte, command ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(command[0]); err != nil {
		t.Fatalf("%s is missing: install it (Debian: apt-get install gzip bzip2 xz-utils zstd tar)", command[0])
	}
	cmd := exec.Command(command[0], append(command[1:], "-c")...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(command, " "), err)
	}
	return out
}

// file is a member of an archive.
type file struct {
	name    string
	content []byte
}

// archive is what tar makes of files.
func archive(t testing.TB, options []string, files ...file) []byte {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"-C", dir, "-cf", "-"}, options...)
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, f.name)
	}
	out, err := exec.Command("tar", args...).Output()
	if err != nil {
		t.Fatalf("tar: %v", err)
	}
	return out
}

// someImages are a raw and a qcow2 image of the same disk.
func someImages(t testing.TB) (disk, qcow2 []byte) {
	t.Helper()
	path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Options: "compression_type=zstd", Compressed: true})
	qcow2, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return disk, qcow2
}

// papers are what an OVA has besides its disk.
func papers() []file {
	return []file{
		{"box.ovf", []byte("<?xml version='1.0'?><Envelope/>" + strings.Repeat(" ", 1000))},
		{"box.mf", []byte(strings.Repeat("SHA256(box.ovf)= 0123\n", 50))},
		{"box.nvram", bytes.Repeat([]byte{0, 1, 2, 3}, 2171)},
	}
}

func TestADiskComesOutOfItsWrappers(t *testing.T) {
	disk, qcow2 := someImages(t)
	small := disk[:2<<20]
	tests := map[string]struct {
		content  []byte
		member   string
		want     []byte
		format   image.Format
		wrappers []image.Format
	}{
		"a raw disk in gzip":      {pack(t, disk, "gzip", "-1"), "", disk, image.Raw, []image.Format{image.Gzip}},
		"a raw disk in bzip2":     {pack(t, small, "bzip2"), "", small, image.Raw, []image.Format{image.Bzip2}},
		"a raw disk in xz":        {pack(t, disk, "xz", "-0", "-T1"), "", disk, image.Raw, []image.Format{image.XZ}},
		"a raw disk in xz blocks": {pack(t, disk, "xz", "-0", "-T2", "--block-size=1MiB"), "", disk, image.Raw, []image.Format{image.XZ}},
		"a raw disk in zstd":      {pack(t, disk, "zstd"), "", disk, image.Raw, []image.Format{image.Zstandard}},
		"a qcow2 image in gzip":   {pack(t, qcow2, "gzip"), "", disk, image.QCOW2, []image.Format{image.Gzip}},
		"a qcow2 image in xz":     {pack(t, qcow2, "xz", "-0"), "", disk, image.QCOW2, []image.Format{image.XZ}},
		"in two members of gzip":  {slices.Concat(pack(t, disk[:5000], "gzip"), pack(t, disk[5000:], "gzip")), "", disk, image.Raw, []image.Format{image.Gzip}},
		"four wrappers": {pack(t, pack(t, pack(t, pack(t, small, "xz", "-0"), "zstd"), "bzip2"), "gzip"), "", small, image.Raw,
			[]image.Format{image.Gzip, image.Bzip2, image.Zstandard, image.XZ}},
		"the only disk in an OVA":                   {archive(t, nil, append(papers(), file{"disk", qcow2})...), "", disk, image.QCOW2, []image.Format{image.Tar}},
		"the only disk, first in a tar":             {archive(t, nil, append([]file{{"disk", disk}}, papers()...)...), "", disk, image.Raw, []image.Format{image.Tar}},
		"a packed disk in an OVA":                   {archive(t, nil, append(papers(), file{"disk.gz", pack(t, qcow2, "gzip")})...), "", disk, image.QCOW2, []image.Format{image.Tar, image.Gzip}},
		"a tar in gzip":                             {pack(t, archive(t, []string{"--format=v7"}, file{"disk.raw", disk}), "gzip"), "", disk, image.Raw, []image.Format{image.Gzip, image.Tar}},
		"a sparse member":                           {archive(t, []string{"-S"}, file{"disk.raw", disk}), "", disk, image.Raw, []image.Format{image.Tar}},
		"a sparse member, pax":                      {archive(t, []string{"-S", "--format=pax"}, file{"disk.raw", disk}), "", disk, image.Raw, []image.Format{image.Tar}},
		"the named disk of two":                     {archive(t, nil, file{"other", disk}, file{"disk", qcow2}), "./disk", disk, image.QCOW2, []image.Format{image.Tar}},
		"the named disk, which is small":            {archive(t, nil, file{"other", disk}, file{"disk", disk[:4096]}), "disk", disk[:4096], image.Raw, []image.Format{image.Tar}},
		"the named disk, whose archive is in xz":    {pack(t, archive(t, nil, file{"other", disk}, file{"disk", qcow2}), "xz", "-0"), "disk", disk, image.QCOW2, []image.Format{image.XZ, image.Tar}},
		"the named archive of one disk in a tar":    {archive(t, nil, file{"other", disk}, file{"a.tar", archive(t, nil, file{"disk", disk})}), "a.tar", disk, image.Raw, []image.Format{image.Tar, image.Tar}},
		"the only member whose name is 200 letters": {archive(t, nil, file{strings.Repeat("n", 200), disk}), "", disk, image.Raw, []image.Format{image.Tar}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, forward := range []bool{false, true} {
				to := target.NewMemory(int64(len(test.want)) + 4096)
				var done, total int64
				report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: test.content, Forward: forward}, Target: to,
					Checksum: checksumOf(t, test.content), Member: test.member, Progress: func(d, of int64) { done, total = d, of }})
				if err != nil {
					t.Fatal(err)
				}
				requireDisk(t, to, test.want)
				if diff := cmp.Diff(test.wrappers, report.Wrappers); diff != "" || report.Format != test.format || report.ReadBytes != int64(len(test.content)) {
					t.Errorf("report %+v\n%s", report, diff)
				}
				if report.VirtualBytes != int64(len(test.want)) {
					t.Errorf("the disk has %d bytes, reported are %d", len(test.want), report.VirtualBytes)
				}
				if !forward && (done != int64(len(test.content)) || total != done) {
					t.Errorf("progress ended at %d of %d, the source has %d bytes", done, total, len(test.content))
				}
			}
		})
	}
}

func TestWrappersThatAreRefused(t *testing.T) {
	disk, qcow2 := someImages(t)
	gz := pack(t, disk, "gzip", "-1")
	spoilt := func(b []byte, fromEnd int) []byte {
		b = bytes.Clone(b)
		b[len(b)-fromEnd] ^= 0xff
		return b
	}
	five := disk[:4096]
	for range 5 {
		five = pack(t, five, "gzip")
	}
	tests := map[string]struct {
		content []byte
		member  string
		size    int64
		reason  image.Reason
		text    string
		// untouched says that the target must not have been cleared.
		untouched bool
	}{
		"gzip that was cut off":               {gz[:len(gz)/2], "", 1 << 24, image.Truncated, "gzip", false},
		"gzip with a wrong checksum":          {spoilt(gz, 8), "", 1 << 24, BadWrapper, "gzip", false},
		"gzip and garbage":                    {append(bytes.Clone(gz), "garbage"...), "", 1 << 24, BadWrapper, "trailing garbage", false},
		"qcow2 in gzip with a wrong checksum": {spoilt(pack(t, qcow2, "gzip"), 8), "", 1 << 24, BadWrapper, "gzip", false},
		"xz with a wrong end":                 {spoilt(pack(t, disk, "xz", "-0"), 1), "", 1 << 24, BadWrapper, "xz", false},
		"zstd that was cut off":               {pack(t, disk, "zstd")[:5000], "", 1 << 24, image.Truncated, "zstd", false},
		"bzip2 that was cut off":              {pack(t, disk[:1<<20], "bzip2")[:500], "", 1 << 24, image.Truncated, "bzip2", true},
		"five wrappers":                       {five, "", 1 << 24, image.UnsupportedFormat, "wrappers", true},
		"a larger disk in gzip":               {gz, "", 1 << 20, LargerThanDisk, "at least", false},
		"a larger qcow2 disk in xz":           {pack(t, qcow2, "xz", "-0"), "", 1 << 20, LargerThanDisk, "", true},
		"a larger disk in a tar":              {archive(t, nil, file{"disk", disk}), "", 1 << 20, LargerThanDisk, "", true},
		"a web page in gzip":                  {pack(t, []byte("<html>"+strings.Repeat(" ", 1000)), "gzip"), "", 1 << 24, image.NotADisk, "web page", true},
		"a vdi image in gzip":                 {pack(t, []byte(strings.Repeat("\x00", 64)+"\x7f\x10\xda\xbe"+strings.Repeat("\x00", 1000)), "gzip"), "", 1 << 24, image.UnsupportedFormat, "vdi", true},
		"an lz4 file in gzip":                 {pack(t, append([]byte("\x04\x22\x4d\x18"), make([]byte, 1000)...), "gzip"), "", 1 << 24, image.UnsupportedFormat, "lz4", true},
		"nothing in gzip":                     {pack(t, nil, "gzip"), "", 1 << 24, image.NotADisk, "", true},
		"a tar of two disks":                  {archive(t, nil, file{"a", disk}, file{"b", qcow2}), "", 1 << 24, SeveralDisks, `2 files in the tar archive are disks, "a", "b": choose one with 'vmdisk convert --member NAME'`, false},
		"a tar without a disk":                {archive(t, nil, papers()...), "", 1 << 24, NoDisk, `"box.ovf"`, true},
		"a tar without the named file":        {archive(t, nil, file{"a", disk}), "b", 1 << 24, NoDisk, `it has "a"`, true},
		"a tar that was cut off":              {archive(t, nil, file{"a", disk})[:1<<20], "", 1 << 24, image.Truncated, "tar", false},
		"a name, and no archive":              {gz, "b", 1 << 24, NoDisk, "no tar archive", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := target.NewMemory(test.size)
			_, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: test.content}, Target: to, Member: test.member})
			var refused *image.Refused
			if !errors.As(err, &refused) || refused.Reason != test.reason || !strings.Contains(err.Error(), test.text) {
				t.Fatalf("got %v, want %s", err, test.reason)
			}
			b, committed := to.Bytes()
			if untouched := b[0] == 0xa5; committed || untouched != test.untouched {
				t.Errorf("committed is %v, untouched is %v", committed, untouched)
			}
		})
	}
}

// TestABombEnds unpacks much more than fits, behind an image that needs none of it and as the image itself.
func TestABombEnds(t *testing.T) {
	if got, want := unpackedLimit(1<<62), int64(1<<60); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	_, qcow2 := someImages(t)
	bomb := exec.Command("sh", "-c", "head -c 3G /dev/zero | zstd -1 -c")
	zeros, err := bomb.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content []byte
		reason  image.Reason
	}{
		"zeros":                {zeros, LargerThanDisk},
		"behind a qcow2 image": {slices.Concat(pack(t, qcow2, "zstd"), zeros), image.TooLarge},
		"zeros, packed twice":  {pack(t, zeros, "gzip"), LargerThanDisk},
		"zeros, packed thrice": {pack(t, pack(t, zeros, "gzip"), "xz"), LargerThanDisk},
	} {
		to := target.NewMemory(imagetest.DiskBytes)
		_, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: test.content}, Target: to})
		var refused *image.Refused
		if !errors.As(err, &refused) || refused.Reason != test.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNestedPackingsShareTheMemory: whatever lies in what, the windows and what is left for the image are the limit, which is as large as
// what one packing may take by itself.
func TestNestedPackingsShareTheMemory(t *testing.T) {
	disk, _ := someImages(t)
	const limit = 64 << 20
	tests := map[string]struct {
		tools   [][]string // innermost first
		refused bool
	}{
		"xz with 8 MiB, four times":          {[][]string{{"xz", "-6", "-T1"}, {"xz", "-6", "-T1"}, {"xz", "-6", "-T1"}, {"xz", "-6", "-T1"}}, false},
		"xz with 64 MiB around xz":           {[][]string{{"xz", "-6", "-T1"}, {"xz", "-9", "-T1"}}, true},
		"xz with 32 MiB, three times":        {[][]string{{"xz", "-8", "-T1"}, {"xz", "-8", "-T1"}, {"xz", "-8", "-T1"}}, true},
		"xz around zstd around xz":           {[][]string{{"xz", "-2"}, {"zstd", "-19"}, {"xz", "-6"}}, false},
		"zstd with 32 MiB, twice":            {[][]string{{"zstd", "--long=25"}, {"zstd", "--long=25"}}, false},
		"zstd with 32 MiB, three times":      {[][]string{{"zstd", "--long=25"}, {"zstd", "--long=25"}, {"zstd", "--long=25"}}, true},
		"xz in blocks around gzip around xz": {[][]string{{"xz", "-6"}, {"gzip"}, {"xz", "-6", "-T2", "--block-size=1MiB"}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			content := disk
			for _, tool := range test.tools {
				content = pack(t, content, tool...)
			}
			c, err := Unwrap(bytes.NewReader(content), Wrapping{Length: int64(len(content)), Limits: image.Limits{MemoryBytes: limit}})
			var got []byte
			if err == nil {
				got, err = io.ReadAll(c.Stream)
			}
			if closeErr := c.Close(); closeErr != nil {
				t.Fatal(closeErr)
			}
			var refused *image.Refused
			if errors.As(err, &refused) != test.refused || test.refused && refused.Reason != image.TooLarge || !test.refused && !bytes.Equal(got, disk) {
				t.Fatalf("got %d bytes, %v", len(got), err)
			}
			if !test.refused && (c.memory < 0 || c.memory > limit/2) {
				t.Errorf("%d bytes are left for the image", c.memory)
			}
		})
	}
}

func TestASourceThatFailsWithinAWrapperIsNoRefusal(t *testing.T) {
	disk, qcow2 := someImages(t)
	for name, content := range map[string][]byte{
		"gzip": pack(t, disk, "gzip", "-1"), "xz": pack(t, qcow2, "xz", "-0"), "zstd": pack(t, disk, "zstd"), "bzip2": pack(t, qcow2, "bzip2"),
		"tar": archive(t, nil, file{"a", disk}), "tar in gzip": pack(t, archive(t, nil, file{"a", disk}), "gzip", "-1"),
	} {
		for _, cause := range []error{nil, io.EOF, io.ErrUnexpectedEOF} {
			for _, after := range []int64{0, 100, int64(len(content)) / 2, int64(len(content)) - 1} {
				reset := &source.Error{Reason: source.ConnectionReset, Message: "reset", Err: cause}
				to := target.NewMemory(imagetest.DiskBytes)
				_, err := Run(t.Context(), Job{Source: &broken{sourcetest.Memory{Content: content}, after, reset}, Target: to, Checksum: checksumOf(t, content)})
				if _, committed := to.Bytes(); !errors.Is(err, reset) || committed {
					t.Errorf("%s, after %d bytes, caused by %v: got %v, committed %v", name, after, cause, err, committed)
				}
			}
		}
	}
}

func TestTheChecksumIsOfTheBytesAsServed(t *testing.T) {
	disk, _ := someImages(t)
	content := pack(t, disk, "gzip", "-1")
	to := target.NewMemory(imagetest.DiskBytes)
	_, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content}, Target: to, Checksum: checksumOf(t, disk)})
	var mismatch *stream.ChecksumError
	if _, committed := to.Bytes(); !errors.As(err, &mismatch) || committed {
		t.Errorf("got %v, committed %v", err, committed)
	}
}

func TestAWrapperIsOpenedAgainAfterATargetThatTakesLongToClear(t *testing.T) {
	disk, _ := someImages(t)
	content := pack(t, archive(t, nil, file{"disk", disk}), "xz", "-0")
	src := &opens{Memory: sourcetest.Memory{Content: content}}
	to := &slow{Memory: target.NewMemory(imagetest.DiskBytes)}
	if _, err := Run(t.Context(), Job{Source: src, Target: to, Checksum: checksumOf(t, content), Now: func() time.Time { return to.now }}); err != nil {
		t.Fatal(err)
	}
	requireDisk(t, to.Memory, disk)
	if diff := cmp.Diff(2, src.n); diff != "" {
		t.Error(diff)
	}
}
