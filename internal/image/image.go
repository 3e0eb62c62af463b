// Package image says what a disk image is to vmdisk: a view of a disk that can be read anywhere (Image) or decoded in
// one forward pass (Forward), the limits that hold for every number in it, and the refusal that names what is wrong
// with it. Each format has a package of its own below this one; package formats chooses between them.
//
// Image bytes are untrusted. Nothing here opens a second file or host, runs a program, or allocates by a number that a
// header holds before that number was compared with a limit. The package must not know where bytes come from or go to.
package image

import (
	"context"
	"io"
)

// Image is an immutable, lazily read view of the disk inside an image.
type Image interface {
	// ReadAt reads the disk's bytes, whatever the image stores for them. It reads the image only through the
	// io.ReaderAt that it was opened with. Safe for concurrent use.
	io.ReaderAt
	// Size is the length of the disk in bytes.
	Size() int64
	// Next is the extent that begins at offset, as long as the image's tables tell cheaply. It answers io.EOF at or
	// behind the disk's end.
	Next(offset int64) (Extent, error)
	// Format is the image's format.
	Format() Format
}

// Extent is a run of the disk's bytes. A zero extent reads as zeros and takes no room in the image.
type Extent struct {
	Start, Len int64
	Zero       bool
}

// Limits bound what an image can make us do. A zero field means its default.
type Limits struct {
	// DiskBytes is the largest disk that is accepted; default 64 TiB.
	DiskBytes int64
	// TableBytes is the largest table that is held in memory as a whole; default 32 MiB, which is also QEMU's.
	TableBytes int64
	// MemoryBytes bounds what one forward pass holds back or remembers; default 64 MiB.
	MemoryBytes int64
}

// WithDefaults is l with every zero field replaced by its default.
func (l Limits) WithDefaults() Limits {
	if l.DiskBytes <= 0 {
		l.DiskBytes = 64 << 40
	}
	if l.TableBytes <= 0 {
		l.TableBytes = 32 << 20
	}
	if l.MemoryBytes <= 0 {
		l.MemoryBytes = 64 << 20
	}
	return l
}

// Unknown is the size of a disk that only its stream tells.
const Unknown int64 = -1

// Forward is an image whose header was read from the beginning of a stream.
type Forward interface {
	// Format is the image's format.
	Format() Format
	// Size is the length of the disk in bytes, or Unknown where the header didn't tell it. Run may find it out, before it
	// hands over the first piece.
	Size() int64
	// Run decodes the whole image from in and hands the disk's stored parts to sink, in no particular order and at
	// most once each. What it doesn't hand over reads as zeros. It reads in.Stream forward only, but not always to its
	// end. Errors of the stream and of sink are answered wrapped.
	Run(ctx context.Context, in Input, sink Sink) error
}

// AtLeast is the length in bytes that f's disk has for certain: its Size, or where that is Unknown, what is known of it.
func AtLeast(f Forward) int64 {
	if partly, ok := f.(interface{ Least() int64 }); ok && f.Size() == Unknown {
		return partly.Least()
	}
	return max(f.Size(), 0)
}

// Input is what a forward pass reads from.
type Input struct {
	// Stream is the image from its first byte, header included, or from the one at Start.
	Stream io.Reader
	// Start is where in the image Stream begins: 0, or a Mark that an earlier pass over the same image has handed over.
	// Random isn't nil then. What that pass had handed over up to the piece with the mark need not be handed over again.
	Start int64
	// Random reads the same image anywhere; nil where the source can't. It is used sparingly: for tables that lie behind the data which
	// they describe, when holding that data would exceed MemoryBytes.
	Random io.ReaderAt
	// Sparse reads the same image where it isn't a hole, and may be read in Stream's place; nil where the source doesn't know its holes.
	Sparse SparseReaderAt
	// Limits bound the pass.
	Limits Limits
}

// Encoding is how an image stores a piece of the disk.
type Encoding uint8

// The encodings.
const (
	// Plain bytes are the disk's own.
	Plain Encoding = iota
	// Deflate is a raw deflate stream (RFC 1951), without header or trailer.
	Deflate
	// Zlib is a deflate stream with header and checksum (RFC 1950), which decodes to Full bytes and not one more.
	Zlib
	// Zstd is a sequence of Zstandard frames (RFC 8878).
	Zstd
)

// Piece is a part of the disk and how it is stored.
type Piece struct {
	// Offset is where it belongs on the disk, in bytes.
	Offset int64
	// Len is how many bytes of the disk it gives.
	Len int
	// Full is how many bytes its stored form decodes to; Len or more, where the disk ends within it.
	Full int
	// Encoding is how it is stored.
	Encoding Encoding
	// Mark is where in the image another pass can start once this piece and all before it are stored for good; see
	// Input.Start. It never falls, and lies before the image's end. 0 says that the pass begins anew.
	Mark int64
}

// Sink takes a piece and its stored bytes, which are only valid during the call and may have a few bytes of something
// else behind them.
type Sink func(p Piece, stored []byte) error
