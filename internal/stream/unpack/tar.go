package unpack

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"vmdisk.io/vmdisk/internal/stream"
)

const (
	// maxMembers is how many members an archive may have.
	maxMembers = 100_000
	// maxNames is how many of them a message lists.
	maxNames = 10
)

// Member is a file in a tar archive.
type Member struct {
	Name string
	// Length is its length in bytes, holes included.
	Length int64
}

// Archive reads the files of a tar archive, one behind the other (POSIX.1, pax; the GNU formats and their sparse files as
// well). Directories, links and devices are passed over. It holds one file's head at a time.
type Archive struct {
	tar    *tar.Reader
	origin *stream.Origin
	seen   int
	names  []string // the first ones
	head   []byte
}

// Tar makes an Archive.
func Tar(r io.Reader) *Archive {
	origin := stream.Remember(r, 0) // members may be passed over
	return &Archive{tar: tar.NewReader(origin), origin: origin}
}

// Next goes to the next file that has at least one byte, or answers io.EOF at the archive's end.
func (a *Archive) Next() (Member, error) {
	for {
		h, err := a.tar.Next()
		if err == io.EOF {
			return Member{}, io.EOF
		}
		if err != nil {
			return Member{}, a.translate(err)
		}
		if a.seen++; a.seen > maxMembers {
			return Member{}, stream.FormatErrorf(stream.Unsupported, "the tar archive has more than %d members: make one that has only the disk", maxMembers)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse || h.Size == 0 {
			continue
		}
		if len(a.names) <= maxNames {
			a.names = append(a.names, shorten(h.Name))
		}
		return Member{Name: h.Name, Length: h.Size}, nil
	}
}

// Peek answers up to n bytes from the beginning of the file that Next went to, and a reader of all of it, those bytes
// included. Both are valid until Next is called again.
func (a *Archive) Peek(n int) (head []byte, whole io.Reader, err error) {
	if len(a.head) < n {
		a.head = make([]byte, n)
	}
	got, err := io.ReadFull(memberReader{a}, a.head[:n])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, nil, err
	}
	head = a.head[:got]
	return head, io.MultiReader(bytes.NewReader(head), memberReader{a}), nil
}

// Names lists the first files that were seen, for messages.
func (a *Archive) Names() string {
	if len(a.names) == 0 {
		return "it has no files"
	}
	text := "it has " + strings.Join(a.names[:min(len(a.names), maxNames)], ", ")
	if len(a.names) > maxNames {
		text += " and others"
	}
	return text
}

// SameName reports whether a member has the name that was asked for: "./a" is "a".
func SameName(a, b string) bool { return path.Clean("/"+a) == path.Clean("/"+b) }

func shorten(name string) string {
	if len(name) > 80 {
		return fmt.Sprintf("%.80q…", name)
	}
	return fmt.Sprintf("%q", name)
}

func (a *Archive) translate(err error) error {
	if cause := a.origin.Err(); cause != nil {
		return cause
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return truncated("tar")
	}
	return stream.FormatErrorf(stream.Corrupt, "the tar archive is corrupt: %v; make it again", err)
}

// memberReader reads the current file.
type memberReader struct{ a *Archive }

// Read implements io.Reader.
func (m memberReader) Read(p []byte) (int, error) {
	n, err := m.a.tar.Read(p)
	if err != nil && err != io.EOF {
		err = m.a.translate(err)
	}
	return n, err
}
