package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// mapped is an entry of 'qemu-img map --output=json'. Its versions before 8.2 don't tell what is compressed.
type mapped struct {
	Start, Length, Depth int64
	Present, Zero, Data  bool
	Offset               *int64
}

// qemuMap is the map that QEMU prints.
func qemuMap(t *testing.T, format, path string) []mapped {
	t.Helper()
	out, err := exec.Command("qemu-img", "map", "--output=json", "-f", format, path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return joined(parseMap(t, string(out)))
}

func parseMap(t *testing.T, text string) []mapped {
	t.Helper()
	var all []mapped
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return all
}

// joined is a map in which data that QEMU knows to be zeros, as it has looked for holes in the image's file, is data.
func joined(all []mapped) []mapped {
	var out []mapped
	for _, m := range all {
		m.Zero = m.Zero && !m.Data
		if n := len(out); n > 0 {
			last := &out[n-1]
			same := last.Present == m.Present && last.Zero == m.Zero && last.Data == m.Data && (last.Offset == nil) == (m.Offset == nil)
			if same && (m.Offset == nil || *last.Offset+last.Length == *m.Offset) {
				last.Length += m.Length
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

func TestMapsTheHolesOfAFile(t *testing.T) {
	for name, writes := range map[string][]int64{
		"a hole at the end":       {0},
		"a hole at the beginning": {1 << 20},
		"only a hole":             nil,
		"several holes":           {1 << 20, 3 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "disk.raw")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(5<<20 + 512); err != nil {
				t.Fatal(err)
			}
			for _, offset := range writes {
				if _, err := f.WriteAt(imagetest.Disk()[:64<<10], offset); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			got := runHere(t, nil, "map", "-o", "json", path)
			if diff := cmp.Diff(qemuMap(t, "raw", path), parseMap(t, got.Stdout)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMapsBlocksAsQEMUDoes has formats whose images are made of blocks of one size.
func TestMapsBlocksAsQEMUDoes(t *testing.T) {
	steps := []string{"io write -P 1 6M 1k", "io write -P 2 0 2M", "io write -P 3 7M 1k", "io write -P 4 3M 512"}
	for name, test := range map[string]struct{ format, options string }{
		"dynamic vhd": {"vpc", "force_size=on"},
		"dynamic vdi": {"vdi", "static=off"},
		"static vdi":  {"vdi", "static=on"},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := imagetest.MakeAs(t, t.TempDir(), test.format, imagetest.Recipe{Options: test.options, Empty: true, Steps: steps})
			got := runHere(t, nil, "map", "-o", "json", path)
			if diff := cmp.Diff(qemuMap(t, test.format, path), parseMap(t, got.Stdout)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMapForPeopleAndItsRefusals(t *testing.T) {
	dir := t.TempDir()
	path, _ := imagetest.Make(t, dir, imagetest.Recipe{Empty: true, Steps: []string{"io write -P 1 128k 128k", "io write -c -P 1 1M 64k"}})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	deaf := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, NoRange: true})
	page := write(t, "<html>")
	tests := map[string]struct {
		args []string
		want ran
	}{
		"text": {[]string{path}, ran{Stdout: `           START           LENGTH  IS                   OFFSET
               0           131072  zero                      -
          131072           131072  data                 327680
          262144           786432  zero                      -
         1048576            65536  compressed                -
         1114112          8324608  zero                      -
`}},
		"another output": {[]string{"-o", "xml", path}, ran{Code: 2, Stderr: "vmdisk: --output is \"xml\": text and json are possible\n"}},
		"a web page":     {[]string{page}, ran{Code: 3, Stderr: "vmdisk: " + page + ": this is a web page, not a disk image: check that the URL points to the file itself and not to a page that links to it\n"}},
		"a pipe":         {[]string{"-"}, ran{Code: 4, Stderr: "vmdisk: standard input can only be read from its beginning to its end, and an image's tables may lie anywhere: save it as a file first\n"}},
		"a server without ranges": {[]string{deaf.URL + "/disk"}, ran{Code: 4, Stderr: "vmdisk: " + deaf.URL +
			"/disk can only be read from its beginning to its end, and an image's tables may lie anywhere: save it as a file first\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, runHere(t, nil, append([]string{"map"}, test.args...)...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
