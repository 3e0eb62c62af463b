package unpack

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/ulikunitz/xz"
)

func TestCopy(t *testing.T) {
	for format, pack := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"xz":   func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
	} {
		t.Run(format, func(t *testing.T) {
			var packed, got bytes.Buffer
			w, err := pack(&packed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(w, "a disk"); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := Copy(&got, &packed, format); err != nil || got.String() != "a disk" {
				t.Errorf("got %q, %v", got.String(), err)
			}
			if err := Copy(&got, bytes.NewReader([]byte("not packed")), format); err == nil {
				t.Error("what isn't packed is unpacked")
			}
		})
	}
	if err := Copy(io.Discard, nil, "zip"); err == nil {
		t.Error("an unknown format is unpacked")
	}
}
