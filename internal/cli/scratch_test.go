package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vmdisk.io/vmdisk/internal/image/imagetest"
)

func TestConvertKeepsAnImageInScratchWhereItMust(t *testing.T) {
	path, disk := imagetest.Make(t, t.TempDir(), imagetest.Recipe{Options: "cluster_size=512,preallocation=full", Empty: true, Steps: []string{"resize 16M", "io write -P 7 14M 512k"}})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	convert := func(target string, flags ...string) ran {
		return runHere(t, content, append(append([]string{"convert", "--progress=none", "--memory=4Mi"}, flags...), "-", target)...)
	}
	target, scratch := filepath.Join(t.TempDir(), "disk.raw"), t.TempDir()
	if got := convert(target); got.Code != exitRefused || !strings.HasSuffix(got.Stderr, ", or let convert keep it on a disk with --scratch DIR\n") {
		t.Errorf("%+v", got)
	}
	if got := convert(target, "--scratch", scratch, "--scratch-size", "1Mi"); got.Code != exitRefused || !strings.Contains(got.Stderr, "scratch may take 1048576 bytes") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Errorf("there is a target: %v", err)
	}
	if got := convert(target, "--scratch", scratch, "--scratch-size", "1Gi"); got != (ran{}) {
		t.Fatalf("%+v", got)
	}
	requireDisk(t, target, disk)
	qcow2 := filepath.Join(t.TempDir(), "disk.qcow2")
	if got := convert(qcow2, "--scratch", scratch, "-O", "qcow2"); got != (ran{}) {
		t.Fatalf("%+v", got)
	}
	imagetest.Run(t, "qemu-img", "compare", "-f", "qcow2", "-F", "qcow2", path, qcow2)
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("left in scratch: %v, %v", left, err)
	}
}

func TestScratchFlagsThatMakeNoSense(t *testing.T) {
	for flags, want := range map[string]string{
		"--scratch-size=1Gi":             "--scratch-size is of no use without --scratch DIR",
		"--scratch=/nowhere":             `--scratch is "/nowhere": name a directory that exists`,
		"--scratch=/ --scratch-size=big": `--scratch-size is "big": give a size such as 20Gi`,
		"--scratch=/ --scratch-size=-1":  `--scratch-size is "-1": give a size such as 20Gi`,
	} {
		got := runHere(t, nil, append([]string{"convert", "-", "disk.raw"}, strings.Fields(flags)...)...)
		if got.Code != exitUsage || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: %+v", flags, got)
		}
	}
}
