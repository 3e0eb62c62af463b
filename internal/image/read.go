package image

import (
	"fmt"
	"io"
)

// File is an image of known length that is read anywhere.
type File struct {
	R io.ReaderAt
	// Length is the image's, in bytes.
	Length int64
	// Format is what errors call it.
	Format Format
}

// Head answers the first HeadBytes of the image, or all of a shorter one.
func (f File) Head() ([]byte, error) {
	head := make([]byte, max(0, min(f.Length, HeadBytes)))
	n, err := f.R.ReadAt(head, 0)
	if err != nil && err != io.EOF { // a wrapped one is a failure
		return nil, fmt.Errorf("read the beginning of the image: %w", err)
	}
	return head[:n], nil
}

// ReadFull fills p from offset of the image; what says what lies there. An image that ends before that is refused.
func (f File) ReadFull(p []byte, offset int64, what string) error {
	if offset < 0 || offset > f.Length-int64(len(p)) {
		return CutOff(f.Format, what, max(offset, 0), int64(len(p)))
	}
	if n, err := f.R.ReadAt(p, offset); n < len(p) {
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // a wrapped one is a failure
			return CutOff(f.Format, what, offset, int64(len(p)))
		}
		return fmt.Errorf("read %d bytes at offset %d of the %s image: %w", len(p), offset, f.Format, err)
	}
	return nil
}

// ReadParts fills p from offset of a disk of size bytes, as io.ReaderAt says it. part reads one byte or more at an
// offset of the disk, as far as what is stored there goes.
func ReadParts(p []byte, offset, size int64, part func(p []byte, offset int64) (int, error)) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read at offset %d of the disk: it must not be negative", offset)
	}
	done := 0
	for done < len(p) && offset < size {
		n, err := part(p[done:done+int(min(int64(len(p)-done), size-offset))], offset)
		if err != nil {
			return done, err
		}
		done += n
		offset += int64(n)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// ReadAgain reads a part of an image of the given format out of turn, and answers how many bytes of it there are: fewer
// than p has where the image ends. Without Random the image is refused.
func (in Input) ReadAgain(p []byte, offset int64, f Format) (int, error) {
	if in.Random == nil {
		return 0, NeedsRandom(f)
	}
	n, err := in.Random.ReadAt(p, offset)
	if n < len(p) && err != io.EOF { // a wrapped one is a failure
		return n, fmt.Errorf("read %d bytes at offset %d of the %s image again: %w", len(p), offset, f, err)
	}
	return n, nil
}
