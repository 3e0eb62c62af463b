package vmdk

import (
	"fmt"
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// ReadAt implements image.Image.
func (v *view) ReadAt(p []byte, offset int64) (int, error) {
	return image.ReadParts(p, offset, v.size, v.readSome)
}

// readSome reads the disk at offset, up to the end of a grain or of a hole.
func (v *view) readSome(p []byte, offset int64) (int, error) {
	at, n, err := v.find(offset)
	if err != nil {
		return 0, err
	}
	if at == 0 {
		p = p[:min(int64(len(p)), n)]
		clear(p)
		return len(p), nil
	}
	within := offset % v.grain
	p = p[:min(int64(len(p)), int64(v.grainLen(offset-within))-within)]
	if !v.compressed {
		return len(p), v.ReadFull(p, int64(at)*sector+within, "the data")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.decode(int64(at)*sector, offset-within); err != nil {
		return 0, err
	}
	copy(p, v.decoded[within:])
	return len(p), nil
}

// find answers the sector of the image where the grain in which offset of the disk lies is stored, or 0 for a hole; and
// for how many bytes the disk goes on to be stored, or to be a hole, as far as one grain table tells.
func (v *view) find(offset int64) (at uint32, n int64, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	number := offset / v.covers()
	end := min((number+1)*v.covers(), v.size)
	b, err := v.table(number)
	if err != nil {
		return 0, 0, err
	}
	if b == nil {
		return 0, end - offset, nil
	}
	first := offset % v.covers() / v.grain
	at = v.entry(b, first)
	i, last := first+1, v.entries(number)
	for i < last && (v.entry(b, i) == 0) == (at == 0) {
		i++
	}
	return at, min(number*v.covers()+i*v.grain, end) - offset, nil
}

// decode makes decoded the disk's bytes of the grain at guest, which is stored at offset. It is called with mu held.
func (v *view) decode(offset, guest int64) error {
	if v.at == guest {
		return nil
	}
	v.at = -1
	var head [sector]byte
	if err := v.ReadFull(head[:grainMarker], offset, "a compressed grain"); err != nil {
		return err
	}
	m := parseMarker(head[:])
	if err := v.checkGrain(m, guest); err != nil {
		return err
	}
	stored := make([]byte, m.size)
	if err := v.ReadFull(stored, offset+grainMarker, "a compressed grain"); err != nil {
		return err
	}
	p, stored, err := v.compressedPiece(guest, stored)
	if err != nil {
		return err
	}
	if v.decoded == nil {
		v.decoded = make([]byte, v.grain)
	}
	if err := v.decoder.Decode(v.decoded[:p.Full], p.Encoding, stored); err != nil {
		return corrupt("the compressed grain at %d of the disk can't be decoded: %v", guest, err)
	}
	v.at = guest
	return nil
}

// Next implements image.Image.
func (v *view) Next(offset int64) (image.Extent, error) {
	if offset < 0 || offset >= v.size {
		return image.Extent{}, io.EOF
	}
	at, n, err := v.find(offset)
	if err != nil {
		return image.Extent{}, fmt.Errorf("find what is stored at %d of the disk: %w", offset, err)
	}
	return image.Extent{Start: offset, Len: n, Zero: at == 0}, nil
}
