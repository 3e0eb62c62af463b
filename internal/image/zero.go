package image

import "bytes"

// IsZero reports whether all of p is zero: its first byte is, and each byte equals the one before it. The comparison is
// the runtime's, which is much faster than a loop.
func IsZero(p []byte) bool {
	return len(p) == 0 || p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1])
}
