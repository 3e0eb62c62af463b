package vmdk

import (
	"bytes"
	"encoding/binary"
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
	image.File
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
	file := image.File{R: r, Length: length, Format: image.VMDK}
	head, err := file.Head()
	if err != nil {
		return nil, err
	}
	h, err := parseBeginning(head, limits)
	if err != nil {
		return nil, err
	}
	v := &view{File: file, header: h, cache: map[int64][]byte{}, at: -1}
	if v.directory < 0 {
		if err := v.readFooter(limits); err != nil {
			return nil, err
		}
	}
	if v.tables == 0 {
		return v, nil
	}
	if n := v.tables * 4; v.directory > length-n { // before that many bytes are allocated
		return nil, truncated("its grain directory", v.directory, n)
	}
	v.places = make([]byte, v.tables*4)
	if err := v.ReadFull(v.places, v.directory, "its grain directory"); err != nil {
		return nil, err
	}
	if _, err := sortedTables(v.places); err != nil {
		return nil, err
	}
	return v, nil
}

// readFooter finds the grain directory.
func (v *view) readFooter(limits image.Limits) error {
	b := make([]byte, footerLen)
	if err := v.ReadFull(b, v.Length-footerLen, "its footer"); err != nil {
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
	if err := v.ReadFull(b, int64(at)*sector, "a grain table"); err != nil {
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
