package image

import (
	"fmt"
	"io"
)

// Mapping is how an image stores a run of the disk: what an Extent says and where.
type Mapping struct {
	Start, Len int64
	// Present says that the image itself says what is there, and would not leave it to a backing file.
	Present bool
	// Zero says that the run reads as zeros, Data that bytes are stored for it.
	Zero, Data bool
	// Compressed says that the bytes are stored in another form than the disk's own.
	Compressed bool
	// Offset is where in the image the run's bytes lie, or have their place, as they are; NoOffset where they don't.
	Offset int64
}

// NoOffset is the Offset of a run that has no place in the image.
const NoOffset int64 = -1

// Mapper is an Image that tells where it stores what.
type Mapper interface {
	Image
	// Map is the mapping that begins at offset. It answers io.EOF at or behind the disk's end. A neighbour may continue it.
	Map(offset int64) (Mapping, error)
}

// HoleFinder is an io.ReaderAt that knows which of its bytes are certain to be zero, as a sparse file's are.
type HoleFinder interface {
	// Hole answers how long the hole, or the run that is none, that begins at offset is.
	Hole(offset int64) (length int64, hole bool, err error)
}

// SparseReaderAt can be read at any place, and knows where that is not worth it.
type SparseReaderAt interface {
	io.ReaderAt
	HoleFinder
}

// Extend lengthens m by next if that continues it, and reports whether it did.
func (m *Mapping) Extend(next Mapping) bool {
	grown := *m
	grown.Start, grown.Len = next.Start, next.Len
	if m.Offset != NoOffset {
		grown.Offset += m.Len
	}
	if m.Start+m.Len != next.Start || grown != next {
		return false
	}
	m.Len += next.Len
	return true
}

// Map calls f with the mappings of the whole disk, in its order and joined where they continue each other. What an image
// that is no Mapper tells is taken from its extents. An image that tells where its bytes lie as they are, and
// has more of them than its length in bytes, is refused.
func Map(img Image, length int64, f func(Mapping) error) error {
	mapper, ok := img.(Mapper)
	if !ok {
		mapper = extents{img}
	}
	shared := NewSharing(img.Format(), length)
	var run Mapping
	for offset := int64(0); ; {
		m, err := mapper.Map(offset)
		if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
			break
		}
		if err != nil {
			return err
		}
		if m.Start != offset || m.Len <= 0 {
			return fmt.Errorf("map the %s image at %d of its disk: got %d bytes at %d", img.Format(), offset, m.Len, m.Start) // a fault of the format's package
		}
		if m.Data && m.Offset != NoOffset {
			if err := shared.Add(m.Len); err != nil {
				return err
			}
		}
		offset += m.Len
		if run.Extend(m) {
			continue
		}
		if run.Len > 0 {
			if err := f(run); err != nil {
				return err
			}
		}
		run = m
	}
	if run.Len == 0 {
		return nil
	}
	return f(run)
}

// extents makes a Mapper of an Image that is none.
type extents struct{ Image }

// Map implements Mapper.
func (e extents) Map(offset int64) (Mapping, error) {
	x, err := e.Next(offset)
	if err != nil {
		return Mapping{}, err
	}
	return Mapping{Start: x.Start, Len: x.Len, Present: !x.Zero, Zero: x.Zero, Data: !x.Zero, Offset: NoOffset}, nil
}
