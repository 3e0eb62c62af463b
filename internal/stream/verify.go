package stream

import (
	"crypto/md5" // CDI's API offers it; the user chooses
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
)

// Checksum is what a stream of bytes is expected to hash to. The zero Checksum expects nothing.
type Checksum struct {
	algorithm string
	sum       string // lower-case hex
}

// ParseChecksum reads "algorithm:hex", where the algorithm is md5, sha1, sha256 or sha512. Empty text is the zero
// Checksum.
func ParseChecksum(text string) (Checksum, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Checksum{}, nil
	}
	algorithm, sum, found := strings.Cut(strings.ToLower(text), ":")
	h := newHash(algorithm)
	if !found || h == nil {
		return Checksum{}, fmt.Errorf("checksum %q: write it as algorithm:hex, where the algorithm is md5, sha1, sha256 or sha512", text)
	}
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != h.Size() {
		return Checksum{}, fmt.Errorf("checksum %q: %s needs %d hexadecimal digits", text, algorithm, 2*h.Size())
	}
	return Checksum{algorithm: algorithm, sum: sum}, nil
}

// IsZero reports whether nothing is expected.
func (c Checksum) IsZero() bool { return c.algorithm == "" }

// String is the checksum as ParseChecksum reads it.
func (c Checksum) String() string {
	if c.IsZero() {
		return ""
	}
	return c.algorithm + ":" + c.sum
}

func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case "md5":
		return md5.New()
	case "sha1":
		return sha1.New()
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	default:
		return nil
	}
}

// ChecksumError says that a stream ended and was not what it was expected to be.
type ChecksumError struct {
	Want, Got Checksum
}

// Error implements error.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("checksum mismatch: expected %s, the bytes have %s", e.Want, e.Got)
}

// Verify answers a reader of the same bytes that ends with a *ChecksumError in place of io.EOF where they don't hash to
// want. Only a reader that was read to its end has been verified. A zero want verifies nothing.
func Verify(r io.Reader, want Checksum) io.Reader {
	if want.IsZero() {
		return r
	}
	return &Verifier{r: r, want: want, hash: newHash(want.algorithm)}
}
