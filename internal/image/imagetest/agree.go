package imagetest

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
)

// Excuse reports whether a way may refuse an image with such an error although it can be read anywhere.
type Excuse func(content []byte, way Way, err error) bool

// RequireAgreement reads an image of unknown quality anywhere and in all ways, and requires that all of them read the
// same disk, or refuse the image; and that a pass can be interrupted everywhere. excuse is asked about a way that refuses
// what is read anywhere. It answers the disk, or nil for an image that is refused.
func RequireAgreement(t testing.TB, content []byte, limits image.Limits, open Opener, ways Ways, excuse Excuse) []byte {
	t.Helper()
	disk, err := Read(open, content, limits, limits.DiskBytes)
	RequireRefusal(t, err)
	for name, way := range ways {
		way.Limits.DiskBytes = limits.DiskBytes
		got, forwardErr := way.Decode(content)
		RequireRefusal(t, forwardErr)
		switch {
		case forwardErr == nil && err != nil:
			t.Fatalf("%s it is a disk, and anywhere %v", name, err)
		case forwardErr == nil && !bytes.Equal(got, disk):
			t.Fatalf("%s it is another disk than anywhere", name)
		case forwardErr != nil && err == nil && !way.excuses(forwardErr) && !excuse(content, way, forwardErr):
			t.Fatalf("anywhere it is a disk, and %s %v", name, forwardErr)
		case forwardErr == nil && way.Random:
			RequireResume(t, way, content, disk, 4, func(int64) int64 { return 1 << 40 })
		}
	}
	if err != nil {
		return nil
	}
	return disk
}

// Mutants are images with a few changed bytes.
type Mutants struct {
	// Format is what QEMU calls it.
	Format string
	Images [][]byte
	// Place chooses what is changed next.
	Place func(r *rand.Rand, image []byte) int
	// Mend makes checksums right again; may be nil.
	Mend func(image []byte)
	// Count is how many there are.
	Count int
	// Limits bound the disks.
	Limits image.Limits
}

// Require requires that all ways agree about each of the mutants, and that qemu-img reads the same disk from it, if it
// reads it at all.
func (m Mutants) Require(t *testing.T, open Opener, ways Ways, excuse Excuse) {
	t.Helper()
	r := rand.New(rand.NewPCG(11, 12))
	path := filepath.Join(t.TempDir(), "mutant")
	read, compared := 0, 0
	for i := range m.Count {
		content := bytes.Clone(m.Images[i%len(m.Images)])
		for range 1 + r.IntN(3) {
			at := m.Place(r, content)
			content[at] = []byte{0, 1, content[at] ^ 1<<r.IntN(8), byte(r.Uint32())}[r.IntN(4)]
		}
		if m.Mend != nil {
			m.Mend(content)
		}
		disk := RequireAgreement(t, content, m.Limits, open, ways, excuse)
		if disk == nil {
			continue
		}
		read++
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		want, ok := TryConvert(t, path, m.Format)
		if !ok {
			continue
		}
		compared++
		if !bytes.Equal(disk, want) {
			t.Errorf("mutant %d: QEMU reads another disk", i)
			RequireEqual(t, disk, want)
		}
	}
	t.Logf("of %d mutants %d were read, and %d were read by QEMU too", m.Count, read, compared)
	if compared < m.Count/10 {
		t.Errorf("only %d of %d were compared", compared, m.Count)
	}
}
