package stream

import "fmt"

// Kind says in which way a packed stream can't be read.
type Kind uint8

// The kinds.
const (
	// Corrupt: the stream contradicts its format or its own checksums.
	Corrupt Kind = iota
	// Truncated: the stream ends too early.
	Truncated
	// Unsupported: the stream uses a part of its format that isn't read.
	Unsupported
	// TooMuchMemory: the stream can't be read within the memory that is allowed.
	TooMuchMemory
)

// FormatError says that a packed stream can't be unpacked, whoever tries it again. It is never the error of the reader
// below, which is answered as it is.
type FormatError struct {
	Kind Kind
	// Message is a sentence for the person who chose the stream: what is wrong and what to do.
	Message string
}

// Error implements error.
func (e *FormatError) Error() string { return e.Message }

// FormatErrorf makes a *FormatError from a format.
func FormatErrorf(kind Kind, format string, args ...any) error {
	return &FormatError{Kind: kind, Message: fmt.Sprintf(format, args...)}
}
