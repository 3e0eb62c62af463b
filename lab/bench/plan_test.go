package bench

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEverySuiteCanBeRun(t *testing.T) {
	for _, suite := range Suites() {
		groups, err := plan(suite)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[key]bool{}
		for _, g := range groups {
			if g.rounds < 1 {
				t.Errorf("%s: %s is never run", suite, g.name)
			}
			for _, w := range g.ways {
				k := key{g.name, w.name}
				if seen[k] {
					t.Errorf("%s: there are two ways with the name %v, whose results would be mixed", suite, k)
				}
				seen[k] = true
				if _, ok := recipes()[w.image]; !ok && w.image != disk {
					t.Errorf("%s: %v: nothing makes the image %s", suite, k, w.image)
				}
			}
		}
	}
	if _, err := plan("slow"); err == nil || !strings.Contains(err.Error(), "quick") {
		t.Errorf("an unknown suite got the error %v, which doesn't name the known ones", err)
	}
}

func TestChoose(t *testing.T) {
	groups := []group{{name: "qcow2 zlib", rounds: 3}, {name: "raw", rounds: 1}}
	type named struct {
		Name   string
		Rounds int
	}
	tests := map[string]struct {
		only   string
		rounds int
		want   []named
	}{
		"all, as they are":                 {"", 0, []named{{"qcow2 zlib", 3}, {"raw", 1}}},
		"those that match":                 {"^raw$", 0, []named{{"raw", 1}}},
		"more rounds, if they are given":   {"qcow", 7, []named{{"qcow2 zlib", 7}}},
		"none, if nothing has such a name": {"vmdk", 0, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []named
			for _, g := range choose(groups, regexp.MustCompile(test.only), test.rounds) {
				got = append(got, named{g.name, g.rounds})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContentIsARawDisk(t *testing.T) {
	tests := map[string]struct{ image, want string }{
		"the disk is its own":              {disk, disk},
		"a qcow2 image holds the disk":     {qcow2Zlib, disk},
		"a packed disk, too":               {rawGzip, disk},
		"a grown image holds a grown disk": {grow100, grow100Disk},
		"and a grown disk is its own":      {grow100Disk, grow100Disk},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := content(test.image); got != test.want {
				t.Errorf("%s holds %s, want %s", test.image, got, test.want)
			}
		})
	}
}

func TestCDIsPathUnpacksOnOneCore(t *testing.T) {
	p := places{lab: "lab", image: "x", url: "http://h/x", scratch: "s", target: "t"}
	get := []string{"curl", "--silent", "--show-error", "--fail", "http://h/x"}
	sparse := []string{"dd", "status=none", "bs=32K", "iflag=fullblock", "conv=sparse", "of=s"}
	tests := map[string]struct {
		image string
		want  pipeline
	}{
		"what qemu-img reads is stored as it is": {"/c/disk.qcow2", pipeline{append(get, "--output", "s")}},
		"raw keeps its holes":                    {"/c/disk.raw", pipeline{get, sparse}},
		"gzip":                                   {"/c/disk.raw.gz", pipeline{get, {"lab", "unpack", "gzip"}, sparse}},
		"xz":                                     {"/c/disk.raw.xz", pipeline{get, {"lab", "unpack", "xz"}, sparse}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p.image = test.image
			if diff := cmp.Diff(test.want, download(p)); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
		})
	}
}
