package unpack

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"vmdisk.io/vmdisk/internal/stream"
)

// Zstd unpacks Zstandard frames (RFC 8878, section 3), one behind the other, skippable ones included. A frame whose
// window is larger than Options.MemoryBytes, and one that needs a dictionary, is an error.
func Zstd(r io.Reader, o Options) (io.ReadCloser, error) {
	origin := stream.Remember(newFrames(r), barrenBytes+o.MemoryBytes)
	z, err := zstd.NewReader(origin, zstd.WithDecoderConcurrency(max(o.Workers, 1)), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(max(o.MemoryBytes, zstd.MinWindowSize))))
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	return &decoder{r: z, origin: origin, name: "zstd", close: z.Close, explain: func(err error) error {
		switch {
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			return stream.FormatErrorf(stream.TooMuchMemory, "unpacking the zstd stream needs a window of more than the %d MiB of memory that are allowed: compress the file without --long or --ultra", o.MemoryBytes>>20)
		case errors.Is(err, zstd.ErrUnknownDictionary):
			return stream.FormatErrorf(stream.Unsupported, "the zstd stream needs a dictionary, which is not in the file: compress the file without one")
		}
		return nil
	}}, nil
}
