// Package unpack unpacks as CDI's importer does, with the libraries that it uses, so that vmdisk is measured against what
// its users have today and not against faster programs that they don't.
package unpack

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
)

// Formats are what Copy unpacks.
func Formats() []string { return []string{"gzip", "xz"} }

// Copy unpacks what it reads.
func Copy(to io.Writer, from io.Reader, format string) error {
	var unpacked io.Reader
	var err error
	switch format {
	case "gzip":
		unpacked, err = gzip.NewReader(from)
	case "xz":
		unpacked, err = xz.NewReader(bufio.NewReader(from))
	default:
		err = fmt.Errorf("there is no format %q: %v are known", format, Formats())
	}
	if err == nil {
		_, err = io.Copy(to, unpacked)
	}
	return err
}
