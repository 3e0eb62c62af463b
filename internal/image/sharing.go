package image

// sharedBytes is how much of a disk may be stored where another part of it is.
const sharedBytes = 4 << 20

// Sharing refuses an image in which many parts of the disk are stored in the same place: a small file that is a disk of any
// size, with any number of parts. No program writes such an image. Only bytes that are stored as they are can be counted; what
// is compressed isn't.
type Sharing struct {
	format Format
	length int64 // the image's, or Unknown
	left   int64
}

// NewSharing begins with nothing counted of an image of the given length, which may be Unknown.
func NewSharing(f Format, length int64) *Sharing {
	return &Sharing{format: f, length: length, left: length + sharedBytes}
}

// Add counts n bytes of the disk that are stored as they are.
func (s *Sharing) Add(n int64) error {
	if s.left -= n; s.left >= 0 || s.length == Unknown {
		return nil
	}
	return Corrupt(s.format, "it has %d bytes, and more of its disk are stored in it: many parts of that lie in the same place", s.length)
}
