package unpack

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"io"
	"strings"

	"vmdisk.io/vmdisk/internal/stream"
)

// readAhead is how many bytes are asked of a reader at a time.
const readAhead = 256 << 10

// Bzip2 unpacks a bzip2 file, which may be several streams one behind the other, as pbzip2 makes them. It takes about
// 4 MiB, whatever the file says.
func Bzip2(r io.Reader) io.ReadCloser {
	origin := stream.Remember(r, barrenBytes)
	return &decoder{r: bzip2.NewReader(bufio.NewReaderSize(origin, readAhead)), origin: origin, name: "bzip2", explain: func(err error) error {
		var structural bzip2.StructuralError
		if errors.As(err, &structural) && strings.Contains(string(structural), "continuation") {
			return trailing("bzip2")
		}
		return nil
	}}
}
