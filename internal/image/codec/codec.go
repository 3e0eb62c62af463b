// Package codec decodes the stored form of one piece of a disk, which is wholly in memory and whose decoded length is
// known. It must not know which image format the piece comes from.
package codec

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/stream/inflate"
)

// MaxPiece is the largest decoded length of a compressed piece in bytes: a qcow2 cluster of 2 MiB.
const MaxPiece = 2 << 20

// Decoder decodes pieces one after the other. It keeps its tables between them, and is not safe for concurrent use.
type Decoder struct {
	inflater *inflate.Decoder
	zstd     *zstd.Decoder
}

// Decode fills dst with the decoded form of stored, which may have bytes of something else behind it. An error means
// that stored is not what it claims to be; dst then holds nothing of use.
func (d *Decoder) Decode(dst []byte, encoding image.Encoding, stored []byte) error {
	switch encoding {
	case image.Plain:
		if copy(dst, stored) < len(dst) {
			return inflate.ErrShort
		}
		return nil
	case image.Deflate:
		return d.decodeDeflate(dst, stored)
	case image.Zlib:
		return d.decodeZlib(dst, stored)
	case image.Zstd:
		return d.decodeZstd(dst, stored)
	default:
		return fmt.Errorf("no decoder for encoding %d", encoding)
	}
}

func (d *Decoder) decodeDeflate(dst, stored []byte) error {
	if d.inflater == nil {
		d.inflater = inflate.New()
	}
	defer d.inflater.Release()
	return d.inflater.Decode(dst, stored)
}

// decodeZstd decodes frame after frame until dst is full. A frame is cut out of stored first: what lies behind it may
// be another piece's frame, and must not be decoded too.
func (d *Decoder) decodeZstd(dst, stored []byte) error {
	if d.zstd == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderMaxMemory(MaxPiece), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return fmt.Errorf("make zstd decoder: %w", err)
		}
		d.zstd = z
	}
	for filled := 0; filled < len(dst); {
		n, err := frameLen(stored)
		if err != nil {
			return fmt.Errorf("zstd: %w", err)
		}
		out, err := d.zstd.DecodeAll(stored[:n], dst[filled:filled:len(dst)])
		if err != nil {
			return fmt.Errorf("zstd: %w", err)
		}
		filled += len(out)
		stored = stored[n:]
		if filled < len(dst) && len(stored) < 4 {
			return inflate.ErrShort
		}
	}
	return nil
}
