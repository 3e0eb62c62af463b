package vhd

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
)

// noise is n bytes that are no footer.
func noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>3) | 1
	}
	return b
}

func TestAFixedImageIsKnownByItsEnd(t *testing.T) {
	const room = image.HeadBytes + 4096
	tests := map[string]struct {
		content []byte
		want    image.Reason
		size    int64 // of the disk in a fixed image; 0 for a raw disk
		shorter bool  // than what the image has room for
	}{
		"a fixed disk":                          {content: buildFixed(noise(room)), size: room},
		"a footer of 511 bytes":                 {content: buildFixed(noise(room))[:room+oldFooterLen], size: room},
		"a geometry that is shorter":            {content: buildFixed(noise(room), putBytes(28, "vpc "), putBytes(56, "\x00\x01\x01\x07")), size: 7 * sector, shorter: true},
		"a sector of a disk":                    {content: noise(room)},
		"a part of a sector":                    {content: noise(room - 1)},
		"a footer that isn't last":              {content: append(buildFixed(noise(room)), noise(sector)...)},
		"a cookie within the last sector":       {content: buildFixed(noise(room))[:room+8-sector/2]},
		"a footer that is cut off":              {content: buildFixed(noise(room))[:room+510], want: image.CorruptImage},
		"a footer with a wrong checksum":        {content: append(buildFixed(noise(room))[:room+511], 1), want: image.CorruptImage},
		"a disk that is longer than the image":  {content: buildFixed(noise(room), put64(48, room+sector)), want: image.Truncated},
		"a disk that is shorter than the image": {content: buildFixed(noise(room), put64(48, room-sector)), want: image.CorruptImage},
		"a disk of 0 bytes":                     {content: buildFixed(nil), want: image.CorruptImage},
		"a geometry that is longer":             {content: buildFixed(noise(room), putBytes(28, "vpc "), putBytes(56, "\x00\x01\x01\xff")), want: image.CorruptImage},
		"a dynamic disk without its beginning":  {content: buildFixed(noise(room), put32(60, typeDynamic)), want: image.CorruptImage},
		"a differencing disk":                   {content: buildFixed(noise(room), put32(60, typeDifferencing)), want: image.BackingFile},
		"version 2":                             {content: buildFixed(noise(room), put32(12, 2<<16)), want: image.UnsupportedFormat},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			length := int64(len(test.content))
			want := answer{format: image.Raw, size: (length + sector - 1) / sector * sector}
			if test.size > 0 {
				want = answer{format: image.VHD, size: test.size}
			}
			if test.want != "" {
				want = answer{refused: test.want}
			}
			img, err := OpenUnmarked(bytes.NewReader(test.content), length)
			if got := answerOf(t, img, err); got != want {
				t.Errorf("Open: %+v, want %+v", got, want)
			}
			for name, random := range map[string]io.ReaderAt{"with ranges": bytes.NewReader(test.content), "without": nil} {
				f, err := BeginUnmarked(test.content[:min(length, image.HeadBytes)], length, random)
				if err == nil {
					err = f.Run(t.Context(), image.Input{Stream: bytes.NewReader(test.content)}, func(image.Piece, []byte) error { return nil })
				}
				want := want
				if test.shorter && random == nil {
					want = answer{refused: image.NeedsRandomAccess}
				}
				if got := answerOf(t, f, err); got != want {
					t.Errorf("forward %s: %+v, want %+v", name, got, want)
				}
			}
		})
	}
}

// answer is what an image turns out to be.
type answer struct {
	format  image.Format
	size    int64
	refused image.Reason
}

func answerOf(t *testing.T, view interface {
	Format() image.Format
	Size() int64
}, err error) answer {
	t.Helper()
	var refused *image.Refused
	switch {
	case errors.As(err, &refused):
		return answer{refused: refused.Reason}
	case err != nil:
		t.Fatal(err)
	}
	return answer{format: view.Format(), size: view.Size()}
}

// TestWhatIsKnownBeforeThePass has images whose end isn't in their head.
func TestWhatIsKnownBeforeThePass(t *testing.T) {
	const room = image.HeadBytes + 3*sector
	for name, test := range map[string]struct {
		content []byte
		length  int64
		random  bool
		format  image.Format
		size    int64
		least   int64
	}{
		"a raw disk, with ranges":       {noise(room + 5), room + 5, true, image.Raw, room + sector, room + sector},
		"a raw disk, without":           {noise(room + 5), room + 5, false, image.Raw, image.Unknown, room},
		"a fixed image, with ranges":    {buildFixed(noise(room)), room + sector, true, image.VHD, room, room},
		"a fixed image, without":        {buildFixed(noise(room)), room + sector, false, image.Raw, image.Unknown, room},
		"a fixed image of no length":    {buildFixed(noise(room)), image.Unknown, true, image.Raw, image.Unknown, 0},
		"a fixed image all in its head": {buildFixed(noise(4096)), image.Unknown, false, image.VHD, 4096, 4096},
		"a raw disk all in its head":    {noise(4095), image.Unknown, false, image.Raw, 4096, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			var random io.ReaderAt
			if test.random {
				random = bytes.NewReader(test.content)
			}
			f, err := BeginUnmarked(test.content[:min(len(test.content), image.HeadBytes)], test.length, random)
			if err != nil {
				t.Fatal(err)
			}
			if f.Format() != test.format || f.Size() != test.size || image.AtLeast(f) != test.least {
				t.Errorf("%s, %d bytes, at least %d", f.Format(), f.Size(), image.AtLeast(f))
			}
		})
	}
}

// TestGoesOnWhereAPassWasStopped has passes that know only at their end whether that is a footer.
func TestGoesOnWhereAPassWasStopped(t *testing.T) {
	for name, way := range map[string]imagetest.Way{
		"of known length":   {Begin: beginning{}.begin, Random: true},
		"of unknown length": {Begin: beginning{unknown: true}.begin, Random: true},
	} {
		for _, n := range []int{1 << 20, 3 << 20, 3<<20 - 1, 3<<20 + 7*sector} {
			disk := append(noise(n), make([]byte, -n&(sector-1))...)
			contents := [][]byte{noise(n)}
			if n%sector == 0 {
				contents = append(contents, buildFixed(disk))
			}
			for _, content := range contents {
				got := imagetest.RequireResume(t, way, content, disk, 50, func(int64) int64 { return 0 })
				if len(got.Marks) < got.Pieces-1 {
					t.Errorf("%d bytes %s: %+v", len(content), name, got)
				}
			}
		}
	}
}

// TestTheTailKeepsAFooterBack reads streams of all lengths around a few sectors in steps of all kinds.
func TestTheTailKeepsAFooterBack(t *testing.T) {
	for _, n := range []int{1, sector - 1, sector, sector + 1, 2 * sector, 3*sector - 1, 3 * sector, 5*sector + 7} {
		for _, fixed := range []bool{false, true} {
			if fixed && n%sector != 0 {
				continue
			}
			content, want := noise(n), noise(n)
			if fixed {
				content = buildFixed(content)
			}
			for _, step := range []int{1, 7, sector - 1, sector, sector + 1, 2*sector - 1, 1 << 20} {
				for _, part := range []int{1, 7, sector, 2*sector - 1, 2 * sector, 2*sector + 1, 1 << 20} {
					r := &tail{r: steps{bytes.NewReader(content), step}, kept: make([]byte, 0, keptBytes)}
					got, err := io.ReadAll(steps{r, part})
					if err != nil || !bytes.Equal(got, want) || r.fixed != fixed {
						t.Errorf("%d bytes, read %d at a time into %d: %d bytes, %v, %v", len(content), step, part, len(got), r.fixed, err)
					}
				}
			}
		}
	}
}

// TestTheTailTellsHowTheStreamEnded has a stream that breaks, and one whose end is refused.
func TestTheTailTellsHowTheStreamEnded(t *testing.T) {
	broken := errors.New("the connection is gone")
	r := &tail{r: io.MultiReader(bytes.NewReader(noise(3*sector)), breaks{broken}), kept: make([]byte, 0, keptBytes)}
	got, err := io.ReadAll(r)
	if !errors.Is(err, broken) || !bytes.Equal(got, noise(2*sector)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	r = &tail{r: bytes.NewReader(buildFixed(noise(3*sector), put32(60, typeDynamic))), kept: make([]byte, 0, keptBytes)}
	got, err = io.ReadAll(r)
	var refused *image.Refused
	if !errors.As(err, &refused) || !bytes.Equal(got, noise(3*sector)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n, again := r.Read(make([]byte, 2048)); n != 0 || !errors.Is(again, err) {
		t.Errorf("after the end: %d bytes, %v", n, again)
	}
}

// breaks is a stream that has ended before its time.
type breaks struct{ err error }

// Read implements io.Reader.
func (b breaks) Read([]byte) (int, error) { return 0, b.err }
