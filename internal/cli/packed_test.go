package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/api/cdi"
	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/plan/volume"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// packedFiles are files that hold the same disk: in a directory, under the names of what they are.
func packedFiles(t *testing.T) (dir string, disk []byte) {
	t.Helper()
	dir = t.TempDir()
	path, disk := imagetest.Make(t, dir, imagetest.Recipe{Compressed: true})
	raw := filepath.Join(dir, "disk.raw")
	if err := os.WriteFile(raw, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	imagetest.Run(t, "sh", "-ec", `cd "$0"
mv "$1" disk.qcow2
qemu-img convert -f raw -O vmdk -o subformat=streamOptimized disk.raw box-disk1.vmdk
cp box-disk1.vmdk box-disk2.vmdk
printf '<?xml version="1.0"?><Envelope><References/></Envelope>' > box.ovf
tar -cf one.ova box.ovf box-disk1.vmdk
tar -cf two.ova box.ovf box-disk1.vmdk box-disk2.vmdk
gzip -1 -k disk.raw two.ova
pigz -p 2 -b 128 -c disk.raw > disk.pigz
xz -0 -k -T2 --block-size=1MiB disk.qcow2
xz -0 -k -T1 disk.raw
zstd -q disk.raw
pzstd -q -p 2 -c disk.raw > disk.pzst
bzip2 -1 -k disk.qcow2
`, dir, path)
	return dir, disk
}

func TestAPackedImageIsConverted(t *testing.T) {
	dir, disk := packedFiles(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	content, err := os.ReadFile(at("disk.qcow2.xz"))
	if err != nil {
		t.Fatal(err)
	}
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	for name, args := range map[string][]string{
		"gzip":                    {at("disk.raw.gz")},
		"gzip of pigz":            {at("disk.pigz")},
		"xz":                      {at("disk.raw.xz")},
		"xz from a server":        {server.URL + "/disk"},
		"zstd":                    {at("disk.raw.zst")},
		"zstd of pzstd":           {at("disk.pzst")},
		"bzip2":                   {at("disk.qcow2.bz2")},
		"an OVA":                  {at("one.ova")},
		"an OVA of two":           {"--member", "box-disk2.vmdk", at("two.ova")},
		"an OVA of two in gzip":   {"--member", "./box-disk1.vmdk", at("two.ova.gz")},
		"what must be a qcow2 in": {"--format", "qcow2", at("disk.qcow2.xz")},
	} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(t.TempDir(), "disk")
			if got := runHere(t, nil, append([]string{"convert", "--progress=none"}, append(args, target)...)...); got.Code != 0 {
				t.Fatalf("%+v", got)
			}
			requireDisk(t, target, disk)
		})
	}
	t.Run("zstd from a pipe", func(t *testing.T) {
		content, err := os.ReadFile(at("disk.raw.zst"))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(t.TempDir(), "disk")
		if got := runHere(t, content, "convert", "--progress=none", "-", target); got.Code != 0 {
			t.Fatalf("%+v", got)
		}
		requireDisk(t, target, disk)
	})
}

func TestRawTakesAPackedFileAsItIs(t *testing.T) {
	dir, _ := packedFiles(t)
	packed, err := os.ReadFile(filepath.Join(dir, "disk.raw.gz"))
	if err != nil {
		t.Fatal(err)
	}
	sector := (len(packed) + image.SectorSize - 1) / image.SectorSize * image.SectorSize
	target := filepath.Join(dir, "target")
	if got := runHere(t, nil, "convert", "--progress=none", "--format=raw", filepath.Join(dir, "disk.raw.gz"), target); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	requireDisk(t, target, append(packed, make([]byte, sector-len(packed))...))

	vmdk, err := os.ReadFile(filepath.Join(dir, "box-disk2.vmdk"))
	if err != nil {
		t.Fatal(err)
	}
	if got := runHere(t, nil, "convert", "--progress=none", "--format=raw", "--member=box-disk2.vmdk", filepath.Join(dir, "two.ova.gz"), target); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	requireDisk(t, target, vmdk)
}

func TestAPackedImageThatIsRefusedLeavesNoTarget(t *testing.T) {
	dir, _ := packedFiles(t)
	imagetest.Run(t, "sh", "-ec", `cd "$0"
head -c 20000 disk.raw.gz > cut.gz
{ head -c 9000 disk.raw.xz; printf X; tail -c +9002 disk.raw.xz; } > spoilt.xz
printf 'PK\003\004%1000s' > a.zip
`, dir)
	for name, test := range map[string]struct {
		args []string
		text string
	}{
		"an OVA of two":            {[]string{"two.ova"}, `2 files in the tar archive are disks, "box-disk1.vmdk", "box-disk2.vmdk": choose one with 'vmdisk convert --member NAME'`},
		"a name that isn't there":  {[]string{"one.ova", "--member=box.vmdk"}, `no file "box.vmdk" in the tar archive: it has "box.ovf", "box-disk1.vmdk"`},
		"a name, and no archive":   {[]string{"disk.raw.gz", "--member=a"}, "no tar archive"},
		"gzip that was cut off":    {[]string{"cut.gz"}, "the gzip stream ends before its end"},
		"xz with another byte":     {[]string{"spoilt.xz"}, "the xz stream is corrupt"},
		"zip":                      {[]string{"a.zip"}, "this is a zip file"},
		"qcow2 where vmdk must be": {[]string{"disk.qcow2.xz", "--format=vmdk"}, "this is a qcow2 image, and a vmdk image was asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			args := append([]string{"convert", "--progress=none", filepath.Join(dir, test.args[0]), filepath.Join(to, "disk")}, test.args[1:]...)
			if got := runHere(t, nil, args...); got.Code != exitRefused || !strings.Contains(got.Stderr, test.text) {
				t.Errorf("%+v", got)
			}
			if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestInspectLooksIntoWrappers(t *testing.T) {
	dir, disk := packedFiles(t)
	size := int64(len(disk))
	claim := &claimSizes{Block: size, Filesystem: volume.Inflated(size, cdi.DefaultOverhead)}
	for name, test := range map[string]struct {
		args []string
		want inspection
	}{
		"gzip": {[]string{"disk.raw.gz"}, inspection{Wrappers: []image.Format{image.Gzip}, Format: image.Raw, VirtualBytes: image.Unknown}},
		"xz":   {[]string{"disk.qcow2.xz"}, inspection{Wrappers: []image.Format{image.XZ}, Format: image.QCOW2, Variant: "version 3, clusters of 65536 bytes", Compression: "zlib", VirtualBytes: size, Claim: claim}},
		"an OVA in gzip": {[]string{"two.ova.gz", "--member=box-disk2.vmdk"},
			inspection{Wrappers: []image.Format{image.Gzip, image.Tar}, Format: image.VMDK, Variant: "streamOptimized, version 3, grains of 65536 bytes", Compression: "deflate", VirtualBytes: size, Claim: claim}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, test.args[0])
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Source, test.want.Bytes = path, info.Size()
			got := inspected(t, 0, append([]string{path}, test.args[1:]...)...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
