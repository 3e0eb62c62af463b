package stream

import (
	"bytes"
	"fmt"
	"io"
)

// Peek reads up to n bytes from r and answers them together with a reader that yields the whole stream, those bytes
// included. A stream that is shorter than n bytes is not an error: head then is all of it. Any other error of r is
// answered.
func Peek(r io.Reader, n int) (head []byte, whole io.Reader, err error) {
	head = make([]byte, n)
	got, err := io.ReadFull(r, head)
	head = head[:got]
	switch err { // a wrapped io.EOF is a failure
	case nil:
		return head, io.MultiReader(bytes.NewReader(head), r), nil
	case io.EOF, io.ErrUnexpectedEOF:
		return head, bytes.NewReader(head), nil
	default:
		return head, nil, fmt.Errorf("read the first %d bytes: %w", n, err)
	}
}
