package transfer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/target"
)

// hashOf is a content hash, computed as its definition says.
func hashOf(disk []byte) string {
	root := sha256.New()
	for at := 0; at < len(disk); at += hashBlock {
		sum := sha256.Sum256(disk[at:min(at+hashBlock, len(disk))])
		root.Write(sum[:])
	}
	return "sha256-4MiB:" + hex.EncodeToString(root.Sum(nil))
}

func TestTheContentHashIsTheDisks(t *testing.T) {
	recipes := imagetest.Recipes()
	for _, name := range []string{"zlib", "written at random", "grown, zlib", "empty", "smallest subclusters, written at random"} {
		t.Run(name, func(t *testing.T) {
			path, want := imagetest.Make(t, t.TempDir(), recipes[name])
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, verify := range []bool{false, true} {
				disk := target.NewMemory(int64(len(want)) + 4096)
				report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content}, Target: disk, Hash: true, Verify: verify})
				if err != nil {
					t.Fatal(err)
				}
				requireDisk(t, disk, want)
				if diff := cmp.Diff(hashOf(want), report.ContentHash); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestALargeDiskIsHashedWhileItIsWritten has more blocks than wait, of which some are zero.
func TestALargeDiskIsHashedWhileItIsWritten(t *testing.T) {
	content := make([]byte, 20*hashBlock+512)
	for at := 0; at < len(content); at += 1 << 20 {
		if at/hashBlock%5 != 3 {
			copy(content[at:], bytes.Repeat([]byte{byte(at >> 20)}, 70_000))
		}
	}
	for name, src := range map[string]*sourcetest.Memory{"of known length": {Content: content}, "of unknown length": {Content: content, Forward: true}} {
		t.Run(name, func(t *testing.T) {
			disk := target.NewMemory(int64(len(content)))
			report, err := Run(t.Context(), Job{Source: src, Target: disk, Verify: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(hashOf(content), report.ContentHash); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestABlockThatIsWrittenToAgainIsHashedAgain is what images in disorder do.
func TestABlockThatIsWrittenToAgainIsHashedAgain(t *testing.T) {
	disk := make([]byte, 3*hashBlock-100)
	c := newDiskHash(bytes.NewReader(disk))
	buffer := make([]byte, hashBlock)
	for i, offset := range []int64{5, hashBlock + 7, 9, hashBlock - 1} {
		copy(disk[offset:], []byte{byte(i + 1), byte(i + 1)})
		c.wrote(offset, 2)
		if i == 3 {
			break // finish finds the rest in the queue
		}
		for b, ok := c.next(0); ok; b, ok = c.next(0) {
			if err := c.hash(b, int64(len(disk)), buffer); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := c.finish(t.Context(), int64(len(disk)), false, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hashOf(disk), got); diff != "" {
		t.Error(diff)
	}
}

// forgetful is a disk that reads back something else at one place.
type forgetful struct {
	*target.Memory
	at      int64
	dropped bool
}

func (f *forgetful) DropCache() error {
	f.dropped = true
	return nil
}

func (f *forgetful) ReadAt(p []byte, offset int64) (int, error) {
	n, err := f.Memory.ReadAt(p, offset)
	if at := f.at - offset; f.dropped && at >= 0 && at < int64(n) {
		p[at] ^= 1
	}
	return n, err
}

func TestADiskThatReadsBackOtherBytesIsNotCommitted(t *testing.T) {
	content := imagetest.Disk()
	for name, at := range map[string]int64{"in its data": 0, "at its end": imagetest.DiskBytes - 1} {
		t.Run(name, func(t *testing.T) {
			disk := &forgetful{Memory: target.NewMemory(imagetest.DiskBytes), at: at}
			_, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content}, Target: disk, Verify: true})
			var e *target.Error
			if _, committed := disk.Bytes(); !errors.As(err, &e) || e.Reason != target.IO || committed {
				t.Errorf("got %v, committed %v", err, committed)
			}
		})
	}
}

func TestADiskThatWasGoneOnWithHasItsWholeHash(t *testing.T) {
	content := imagetest.Disk()
	disk := newVolatile(imagetest.DiskBytes)
	last := breakOff(t, content, disk, 7<<20)
	if last == nil {
		t.Fatal("there is no checkpoint")
	}
	report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content}, Target: disk, Checksum: checksumOf(t, content), Resume: last, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hashOf(content), report.ContentHash); diff != "" || report.ResumedAt == 0 {
		t.Errorf("%sresumed at %d", diff, report.ResumedAt)
	}
}

func TestADiskOfTooManyBlocksHasNoHash(t *testing.T) {
	c := newDiskHash(bytes.NewReader(nil))
	for b := range int64(maxHashBlocks + 1) {
		c.wrote(b*hashBlock, 1)
	}
	if got, err := c.finish(t.Context(), (maxHashBlocks+1)*hashBlock, false, 1); got != "" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
