// Package unpack has a reader for each kind of packing that a file may come in: gzip, bzip2, Zstandard, xz, and tar with
// the choice of one member. They read forward, in bounded memory, and check what the packing lets them check.
//
// An error is either the one of the reader below, as it was, or a *stream.FormatError. The package must not know what is
// packed, nor where it comes from.
package unpack

import (
	"errors"
	"io"

	"vmdisk.io/vmdisk/internal/stream"
)

// barrenBytes is how much of a file may unpack to nothing, one piece of it behind the other: padding, empty streams, frames to
// be skipped.
const barrenBytes = 16 << 20

// Options bound a reader.
type Options struct {
	// MemoryBytes is the most that a reader's window may take. Larger ones are an error of kind TooMuchMemory.
	MemoryBytes int64
	// Workers is how many goroutines may decode at a time; at least 1.
	Workers int
}

// Windowed is a reader that takes more memory or less, depending on what it reads. Held and Confine must not be called while
// something reads.
type Windowed interface {
	io.ReadCloser
	// Held is about how many bytes it has taken.
	Held() int64
	// Confine bounds what it may take from now on.
	Confine(o Options)
}

// windowed implements Windowed.
type windowed struct {
	*decoder
	held    func() int64
	confine func(Options)
}

// Held implements Windowed.
func (w *windowed) Held() int64 { return w.held() }

// Confine implements Windowed.
func (w *windowed) Confine(o Options) { w.confine(o) }

// decoder is a reader whose errors are translated.
type decoder struct {
	r      io.Reader
	origin *stream.Origin
	name   string // of the packing
	// explain answers the errors that only this packing has, or nil.
	explain func(error) error
	close   func()
	err     error
}

// Read implements io.Reader.
func (d *decoder) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.r.Read(p)
	if n > 0 {
		d.origin.Fruitful()
	}
	if err == io.EOF && d.origin.Err() != nil || err != nil && err != io.EOF { // a decoder may take a failure for the end
		err = d.translate(err)
	}
	d.err = err
	return n, err
}

func (d *decoder) translate(err error) error {
	if cause := d.origin.Err(); cause != nil {
		return cause
	}
	var format *stream.FormatError
	if errors.As(err, &format) {
		return err
	}
	if d.explain != nil {
		if explained := d.explain(err); explained != nil {
			return explained
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return truncated(d.name)
	}
	return stream.FormatErrorf(stream.Corrupt, "the %s stream is corrupt: %v; make the file again, or compare its checksum with the publisher's", d.name, err)
}

// Close implements io.Closer. It waits for what the reader has started.
func (d *decoder) Close() error {
	if d.close != nil {
		d.close()
	}
	return nil
}

func truncated(name string) error {
	return stream.FormatErrorf(stream.Truncated, "the %s stream ends before its end: the file was cut off; fetch or make it again", name)
}

// trailing is the error of bytes behind the end of a stream that are neither another one nor padding.
func trailing(name string) error {
	return stream.FormatErrorf(stream.Corrupt, "there is trailing garbage behind the end of the %s stream: the file was damaged or put together wrongly; make it again", name)
}
