package inflate

import (
	"errors"
	"io"
)

const (
	// windowBytes is how far a repetition may reach back (RFC 1951, section 2).
	windowBytes = 32 << 10
	// outputBytes are decoded, and inputBytes read, at a time.
	outputBytes = 256 << 10
	inputBytes  = 256 << 10
	// keptBytes is how much of the input a Decoder may give back.
	keptBytes = 8
)

// Reader decodes deflate streams that lie in a reader, one behind the other, and reads what there is between them. It takes
// less than 1 MiB.
type Reader struct {
	decoder *Decoder
	in      io.Reader
	input   []byte
	inErr   error // why there is no more input

	out       []byte // the window, and what was decoded behind it
	taken, to int    // out[taken:to] is decoded and wasn't read
	err       error  // after that
}

// NewReader answers a Reader of r, from which it may read more than it decodes. ReadByte reads what is before the first stream.
func NewReader(r io.Reader) *Reader {
	z := &Reader{decoder: New(), in: r, input: make([]byte, inputBytes), out: make([]byte, windowBytes+outputBytes), err: io.EOF}
	z.decoder.more = z.more
	z.decoder.begin(z.input[:0])
	return z
}

// Begin begins to decode the stream that lies here.
func (z *Reader) Begin() {
	z.decoder.begin(z.decoder.behind())
	z.taken, z.to, z.err = 0, 0, nil
}

// Read reads what the current stream decodes to, and answers io.EOF at the stream's end. Its errors are io.ErrUnexpectedEOF,
// ErrCorrupt, and those of the reader below.
func (z *Reader) Read(p []byte) (int, error) {
	if z.taken == z.to && z.err == nil {
		z.decode()
	}
	if z.taken == z.to {
		return 0, z.err
	}
	n := copy(p, z.out[z.taken:z.to])
	z.taken += n
	return n, nil
}

// decode decodes the next part of the stream.
func (z *Reader) decode() {
	kept := copy(z.out, z.out[max(0, z.to-windowBytes):z.to])
	to, err := z.decoder.run(z.out, kept)
	switch {
	case errors.Is(err, ErrShort):
		z.err = z.inputErr()
	case err != nil:
		z.err = err
	case to < len(z.out):
		z.err = io.EOF
	}
	z.taken, z.to = kept, to
}

// inputErr is the error of input that ends within a stream.
func (z *Reader) inputErr() error {
	if z.inErr == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return z.inErr
}

// ReadByte reads the next byte behind the stream that Read has read to its end. It answers io.EOF where there is none.
func (z *Reader) ReadByte() (byte, error) {
	f := z.decoder
	if f.n > 0 {
		f.behind()
	}
	f.ask(1)
	if f.at == len(f.src) {
		return 0, z.inErr
	}
	f.at++
	return f.src[f.at-1], nil
}

// more gives the Decoder n bytes of input, or what there is.
func (z *Reader) more(n int) {
	f := z.decoder
	from := max(0, f.at-keptBytes)
	kept := copy(z.input, f.src[from:])
	f.at -= from
	got := 0
	if want := n - (kept - f.at); z.inErr == nil {
		got, z.inErr = io.ReadAtLeast(z.in, z.input[kept:], want)
		if z.inErr == io.ErrUnexpectedEOF {
			z.inErr = io.EOF
		}
	}
	f.src = z.input[:kept+got]
}
