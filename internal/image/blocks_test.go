package image_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
)

// stored is a block at a place of eight bytes, above its number of four bits.
type stored uint64

// eight is a disk of five and a half blocks of eight bytes: 1, 2 and 5 are stored, 2 before 1.
func eight() *image.Blocks {
	file := "headeer.22222222111111115555...."
	return &image.Blocks{
		File:      image.File{R: bytes.NewReader([]byte(file)), Length: int64(len(file)), Format: image.VHDX},
		DiskBytes: 44, BlockBytes: 8,
		Table: image.NewBlockList([]stored{1<<4 | 2, 2<<4 | 1, 3<<4 | 5}, 4, func(b stored) int64 { return int64(b>>4) * 8 }),
	}
}

func TestBlocksAreReadFromWhereTheyAreStored(t *testing.T) {
	want := "\x00\x00\x00\x00\x00\x00\x00\x001111111122222222" + string(make([]byte, 16)) + "5555"
	for name, at := range map[string]struct{ offset, n int64 }{
		"all": {0, 44}, "within a block": {9, 3}, "over two that lie in another order": {12, 8}, "a hole": {24, 9}, "the last part": {40, 4}, "nothing at the end": {44, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := bytes.Repeat([]byte{0xff}, int(at.n))
			if n, err := eight().ReadAt(got, at.offset); err != nil || int64(n) != at.n {
				t.Fatalf("%d, %v", n, err)
			}
			if diff := cmp.Diff(want[at.offset:at.offset+at.n], string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if n, err := eight().ReadAt(make([]byte, 5), 40); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("over the end: %d, %v", n, err)
	}
}

func TestBlocksAreMapped(t *testing.T) {
	var got []image.Mapping
	if err := image.Map(eight(), image.Unknown, func(m image.Mapping) error { got = append(got, m); return nil }); err != nil {
		t.Fatal(err)
	}
	hole := image.Mapping{Present: true, Zero: true, Offset: image.NoOffset}
	data := image.Mapping{Present: true, Data: true}
	at := func(m image.Mapping, start, n, offset int64) image.Mapping {
		m.Start, m.Len, m.Offset = start, n, offset
		return m
	}
	want := []image.Mapping{
		at(hole, 0, 8, image.NoOffset), at(data, 8, 8, 16), at(data, 16, 8, 8), at(hole, 24, 16, image.NoOffset), at(data, 40, 4, 24),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExtentsOfBlocksAreAsLongAsTheyCanBe(t *testing.T) {
	var got []image.Extent
	for offset := int64(3); ; {
		x, err := eight().Next(offset)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x)
		offset += x.Len
	}
	want := []image.Extent{{Start: 3, Len: 5, Zero: true}, {Start: 8, Len: 16}, {Start: 24, Len: 16, Zero: true}, {Start: 40, Len: 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	empty := &image.Blocks{DiskBytes: 44, BlockBytes: 8, Table: image.NewBlockList([]stored{}, 4, nil)}
	if x, err := empty.Next(0); err != nil || x != (image.Extent{Len: 44, Zero: true}) {
		t.Errorf("of an empty disk: %v, %v", x, err)
	}
}

// packedView is a disk that is compressed: all of it is data, and no byte has a place.
type packedView struct{ image.Image }

func (packedView) Next(offset int64) (image.Extent, error) {
	if offset > 0 {
		return image.Extent{}, io.EOF
	}
	return image.Extent{Len: 1 << 40}, nil
}

// placedView is a disk of 1 TiB whose parts all lie in the same place.
type placedView struct{ image.Image }

func (placedView) Map(offset int64) (image.Mapping, error) {
	return image.Mapping{Start: offset, Len: 1 << 20, Data: true, Present: true}, nil
}

func (packedView) Format() image.Format { return image.VMDK }

func (placedView) Format() image.Format { return image.VDI }

func TestMapRefusesPartsInTheSamePlaceOnly(t *testing.T) {
	pass := func(image.Mapping) error { return nil }
	if err := image.Map(packedView{}, 1000, pass); err != nil {
		t.Error(err)
	}
	want := image.Corrupt(image.VDI, "it has 1000 bytes, and more of its disk are stored in it: many parts of that lie in the same place")
	if err := image.Map(placedView{}, 1000, pass); err == nil || err.Error() != want.Error() {
		t.Error(err)
	}
}
