// Package source says where an image's bytes come from: a small interface, the errors that its implementations answer,
// and reading at any place by way of it. Each kind of source has a package of its own below this one, and all of them
// run the suite of package sourcetest.
//
// It must not know what the bytes mean, where they go, or anything of Kubernetes.
package source

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Source is one object, from which bytes can be read. Its methods are not safe for concurrent use; the readers that
// Open answers are independent of each other and of the Source.
//
// Every error is an *Error, or wraps one, unless ctx was done; then it wraps ctx.Err().
type Source interface {
	// Describe says what the source knows of its object before it is read. It is called before Open, and its ctx must
	// outlive the first reader, which may go on with what Describe began.
	Describe(ctx context.Context) (Description, error)
	// Open answers the object's bytes from offset on; length of them, or all to its end where length is negative. An
	// offset other than 0 needs Description.Ranges. The reader ends with io.EOF only after all of them came; a
	// connection that breaks is mended within the reader where that is safe, and is an error otherwise. Bytes of two
	// versions of the object are never mixed. ctx bounds the reader's whole life.
	Open(ctx context.Context, offset, length int64) (io.ReadCloser, error)
	// Close gives back what the source holds. Readers must be closed first.
	Close() error
}

// Unknown is the length of an object that doesn't tell it.
const Unknown int64 = -1

// Description is what is known of an object before it is read.
type Description struct {
	// Name is the object in messages. It holds no secret.
	Name string
	// Length is its length in bytes, or Unknown.
	Length int64
	// Ranges says that it can be read from any offset, and more than once.
	Ranges bool
	// Once says that it passes by once: a second Open is an error, also one from the beginning.
	Once bool
	// Validator changes when the object does; empty where the source has none.
	Validator string
}

// Reason is one stable word for why a source did not deliver.
type Reason string

// The reasons.
const (
	InvalidURL         Reason = "InvalidURL"
	InvalidHeader      Reason = "InvalidHeader"
	InvalidCA          Reason = "InvalidCA"
	InvalidCredentials Reason = "InvalidCredentials"
	NotFound           Reason = "NotFound"
	Gone               Reason = "Gone"
	Unauthorized       Reason = "Unauthorized"
	Forbidden          Reason = "Forbidden"
	ProxyRefused       Reason = "ProxyRefused"
	TooManyRequests    Reason = "TooManyRequests"
	UnexpectedStatus   Reason = "UnexpectedStatus"
	ServerError        Reason = "ServerError"
	TooManyRedirects   Reason = "TooManyRedirects"
	NoSuchHost         Reason = "NoSuchHost"
	ConnectionRefused  Reason = "ConnectionRefused"
	ConnectionReset    Reason = "ConnectionReset"
	Unreachable        Reason = "Unreachable"
	AddressForbidden   Reason = "AddressForbidden"
	CertificateInvalid Reason = "CertificateInvalid"
	TLSFailed          Reason = "TLSFailed"
	Timeout            Reason = "Timeout"
	Changed            Reason = "SourceChanged"
	BadAnswer          Reason = "BadAnswer"
	// NotAFile: a path is neither a file nor a block device.
	NotAFile Reason = "NotAFile"
	// ReadFailed: the operating system couldn't read a file, a device or a pipe.
	ReadFailed Reason = "ReadFailed"
	// ForwardOnly: the object can be read from its beginning only, and that isn't enough for what was asked.
	ForwardOnly Reason = "ForwardOnly"
)

// Error says that a source did not deliver.
type Error struct {
	Reason Reason
	// Message is a sentence for the person who chose the source: what happened and where, and what to do where that is
	// not plain. It holds no secret.
	Message string
	// Permanent says that the same request can't succeed before somebody changes something.
	Permanent bool
	// RetryAfter is how long the source asked to be left alone (RFC 9110, section 10.2.3); 0: it did not say.
	RetryAfter time.Duration
	// Err is the cause, if there is one. Its text may hold secrets. It wraps no io.EOF, which would look like a good end.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap answers the cause.
func (e *Error) Unwrap() error { return e.Err }

// ReaderAt reads a source that has Description.Ranges at any place, with one Open for each read.
type ReaderAt struct {
	// Context bounds every read; io.ReaderAt has no place for one.
	Context context.Context // see above
	Source  Source
}

// ReadAt implements io.ReaderAt.
func (r ReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	body, err := r.Source.Open(r.Context, offset, int64(len(p)))
	if err != nil {
		return 0, fmt.Errorf("open at offset %d: %w", offset, err)
	}
	n, err := io.ReadFull(body, p)
	if err == io.ErrUnexpectedEOF { //nolint:errorlint // of ReadFull: the object ends there
		err = io.EOF
	}
	if closeErr := body.Close(); err == nil && closeErr != nil {
		return n, fmt.Errorf("close after reading at offset %d: %w", offset, closeErr)
	}
	return n, err
}
