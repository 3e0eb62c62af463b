package vmdk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/codec"
)

// cachedTables is how many grain tables are remembered.
const cachedTables = 64

// footerLen is the length of what ends an image whose grain directory is not at its beginning: a marker, the footer, and
// the marker of the end.
const footerLen = 3 * sector

// view is an image that is read anywhere. Reads of compressed grains wait for each other.
type view struct {
	r      io.ReaderAt
	length int64 // the image's, in bytes
	header
	places []byte // the grain directory

	mu      sync.Mutex
	cache   map[int64][]byte // grain tables by number
	order   []int64          // of the numbers, oldest first
	decoder codec.Decoder
	decoded []byte // the compressed grain that was read last
	at      int64  // where it belongs on the disk; -1 for nowhere
}

// Open reads the header, where there is one the footer, and the grain directory of the image of the given length in
// bytes. It answers an *image.Refused for an image that can't be read.
func Open(r io.ReaderAt, length int64, limits image.Limits) (image.Image, error) {
	head := make([]byte, max(0, min(length, image.HeadBytes)))
	if _, err := r.ReadAt(head, 0); err != nil && err != io.EOF { // a wrapped one is a failure
		return nil, fmt.Errorf("read vmdk header: %w", err)
	}
	h, err := parseBeginning(head, limits)
	if err != nil {
		return nil, err
	}
	v := &view{r: r, length: length, header: h, cache: map[int64][]byte{}, at: -1}
	if v.directory < 0 {
		if err := v.readFooter(limits); err != nil {
			return nil, err
		}
	}
	if v.tables == 0 {
		return v, nil
	}
	v.places = make([]byte, min(v.tables*4, max(0, length)))
	if int64(len(v.places)) < v.tables*4 {
		return nil, truncated("its grain directory", v.directory, v.tables*4)
	}
	return v, v.readFull(v.places, v.directory, "its grain directory")
}

// readFooter finds the grain directory.
func (v *view) readFooter(limits image.Limits) error {
	b := make([]byte, footerLen)
	if err := v.readFull(b, v.length-footerLen, "its footer"); err != nil {
		return err
	}
	if m := parseMarker(b); m.size != 0 || m.kind != markFooter {
		return noFooter()
	}
	if err := checkEnd(b[2*sector:]); err != nil {
		return err
	}
	footer, err := v.parseFooter(b[sector:2*sector], limits)
	v.directory = footer.directory
	return err
}

// noFooter is the refusal of an image whose footer is not where it should be.
func noFooter() error {
	return image.Refuse(image.Truncated, "the vmdk image doesn't end with a footer, as its header says that it does: it was cut off, as an interrupted upload does, or something was put behind it")
}

// checkEnd looks at the marker of the end.
func checkEnd(b []byte) error {
	if m := parseMarker(b); m != (marker{}) {
		return corrupt("behind its footer is no end")
	}
	return nil
}

// parseFooter reads a footer, which must say the same as the header and where the grain directory is.
func (h header) parseFooter(b []byte, limits image.Limits) (header, error) {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return header{}, noFooter()
	}
	if err := refuseVersion(b); err != nil {
		return header{}, err
	}
	footer, err := parseHeader(b, limits)
	if err != nil {
		return header{}, err
	}
	if footer.directory < 0 {
		return header{}, corrupt("its footer doesn't say where its grain directory is")
	}
	want := h
	want.directory, want.overhead, want.descriptor = footer.directory, footer.overhead, footer.descriptor
	if footer != want {
		return header{}, corrupt("its footer contradicts its header")
	}
	return footer, nil
}

// readFull reads all of p at offset of the image.
func (v *view) readFull(p []byte, offset int64, what string) error {
	if offset < 0 || offset > v.length-int64(len(p)) {
		return truncated(what, max(offset, 0), int64(len(p)))
	}
	if n, err := v.r.ReadAt(p, offset); n < len(p) {
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // a wrapped one is a failure
			return truncated(what, offset, int64(len(p)))
		}
		return fmt.Errorf("read %d bytes at offset %d of the vmdk image: %w", len(p), offset, err)
	}
	return nil
}

// Format implements image.Image.
func (v *view) Format() image.Format { return image.VMDK }

// Size implements image.Image.
func (v *view) Size() int64 { return v.size }

// table answers the grain table with the given number, or nil for none. It is called with mu held.
func (v *view) table(number int64) ([]byte, error) {
	at := binary.LittleEndian.Uint32(v.places[number*4:])
	if at == 0 {
		return nil, nil
	}
	if b, ok := v.cache[number]; ok {
		return b, nil
	}
	b := make([]byte, v.tableLen())
	if err := v.readFull(b, int64(at)*sector, "a grain table"); err != nil {
		return nil, err
	}
	if len(v.order) >= cachedTables {
		delete(v.cache, v.order[0])
		v.order = v.order[1:]
	}
	v.cache[number] = b
	v.order = append(v.order, number)
	return b, nil
}
