package vmdk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// TestMutatedImagesReadAsQEMUReadsThem changes a few bytes of an image's metadata. Where ours reads a disk, it must be the
// one that qemu-img reads; where it doesn't, it says why.
func TestMutatedImagesReadAsQEMUReadsThem(t *testing.T) {
	const mutations = 80
	disk := imagetest.Disk()[:builtDisk]
	images := [][]byte{build(), stream(disk, shape{}), stream(disk, shape{tablesLast: true, zeroGrains: true}), build(put32(8, flagZeroGrains), put32(builtTable, zeroGrain))}
	r := rand.New(rand.NewPCG(11, 12))
	dir := t.TempDir()
	path, raw := filepath.Join(dir, "image.vmdk"), filepath.Join(dir, "raw")
	read := 0
	for range mutations {
		file := bytes.Clone(images[r.IntN(len(images))])
		for range 1 + r.IntN(3) {
			at := r.IntN(len(file))
			if r.IntN(2) == 0 {
				at = []int{r.IntN(80), builtDirectory + r.IntN(8), builtTable + r.IntN(64), len(file) - 1 - r.IntN(4*sector)}[r.IntN(4)]
			}
			file[at] = []byte{0, 1, file[at] ^ 1<<r.IntN(8), byte(r.Uint32())}[r.IntN(4)]
		}
		got, err := decodeForward(file, way{disk: 1 << 22, random: true})
		requireRefusal(t, err)
		if err != nil {
			if _, err := readDisk(file, image.Limits{}); err != nil {
				requireRefusal(t, err)
			}
			continue
		}
		read++
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("qemu-img", "convert", "-f", "vmdk", "-O", "raw", path, raw).CombinedOutput(); err != nil {
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatal(err)
			}
			t.Logf("ours reads it, and qemu-img doesn't: %s", out)
			continue
		}
		want, err := os.ReadFile(raw)
		if err != nil {
			t.Fatal(err)
		}
		imagetest.RequireEqual(t, got, want)
	}
	if read < mutations/10 {
		t.Errorf("only %d of %d were read", read, mutations)
	}
}
