package vdi

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// recipes are images of every kind that QEMU makes.
func recipes() map[string]imagetest.Recipe {
	scattered := imagetest.RandomWrites(30)
	return map[string]imagetest.Recipe{
		"dynamic":                       {},
		"dynamic, empty":                {Empty: true},
		"dynamic, written at random":    {Empty: true, Steps: scattered},
		"dynamic, over what is there":   {Steps: scattered},
		"dynamic, written from the end": {Empty: true, Steps: []string{"io write -P 1 8M 1M", "io write -P 2 5M 2M", "io write -P 3 0 512"}},
		"static":                        {Options: "static=on"},
		"static, written at random":     {Options: "static=on", Empty: true, Steps: scattered},
	}
}

// TestReadsWhatQEMUReads compares every way of reading with qemu-img, on images of every kind that QEMU makes.
func TestReadsWhatQEMUReads(t *testing.T) {
	for name, recipe := range recipes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, want := imagetest.MakeAs(t, t.TempDir(), "vdi", recipe)
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			requireEveryWay(t, file, want)
		})
	}
}

// TestReadsBlocksInAnyOrder has so many runs of blocks that little memory doesn't hold them.
func TestReadsBlocksInAnyOrder(t *testing.T) {
	order := rand.New(rand.NewPCG(5, 6)).Perm(40)
	backwards := slices.Sorted(slices.Values(order))
	slices.Reverse(backwards)
	for name, order := range map[string][]int{"at random": order, "backwards": backwards} {
		t.Run(name, func(t *testing.T) {
			file, want := inOrder(order)
			requireEveryWay(t, file, want)
			var refused *image.Refused
			if _, err := decodeForward(file, way{memory: 1}, image.Limits{}); !errors.As(err, &refused) || refused.Reason != image.NeedsRandomAccess {
				t.Errorf("with little memory and without ranges: %v", err)
			}
		})
	}
}

// requireEveryWay requires that every way of reading an image gives the disk.
func requireEveryWay(t *testing.T, file, disk []byte) {
	t.Helper()
	img, err := Open(bytes.NewReader(file), int64(len(file)), image.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(disk) > 0 {
		imagetest.RequireDisk(t, img, disk)
	}
	for _, w := range []way{{}, {unknown: true}, {random: true}, {random: true, memory: 1}} {
		got, err := decodeForward(file, w, image.Limits{})
		if err != nil {
			t.Fatalf("forward, %+v: %v", w, err)
		}
		imagetest.RequireEqual(t, got, disk)
	}
}

// way is a way of decoding forward.
type way struct {
	random, unknown bool // the source can be read anywhere; its length isn't known
	memory          int64
}

// decodeForward decodes an image in one forward pass into memory.
func decodeForward(file []byte, w way, limits image.Limits) ([]byte, error) {
	limits.MemoryBytes = w.memory
	length := int64(len(file))
	if w.unknown {
		length = image.Unknown
	}
	f, err := Begin(file[:min(len(file), image.HeadBytes)], length, limits)
	if err != nil {
		return nil, err
	}
	in := image.Input{Stream: bytes.NewReader(file), Limits: limits}
	if w.random {
		in.Random = bytes.NewReader(file)
	}
	return imagetest.Decode(f, in)
}

// readDisk opens an image and reads its disk.
func readDisk(file []byte, limits image.Limits) ([]byte, error) {
	img, err := Open(bytes.NewReader(file), int64(len(file)), limits)
	if err != nil {
		return nil, err
	}
	disk := make([]byte, img.Size())
	_, err = img.ReadAt(disk, 0)
	return disk, err
}
