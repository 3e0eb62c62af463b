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
func Zstd(r io.Reader, o Options) (Windowed, error) {
	frames := newFrames(r, o.MemoryBytes)
	origin := stream.Remember(frames, barrenBytes+o.MemoryBytes)
	z, err := zstd.NewReader(origin, zstd.WithDecoderConcurrency(max(o.Workers, 1)), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(max(o.MemoryBytes, zstd.MinWindowSize))))
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	d := &decoder{r: z, origin: origin, name: "zstd", close: z.Close, explain: func(err error) error {
		switch {
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			return frames.tooLarge()
		case errors.Is(err, zstd.ErrUnknownDictionary):
			return stream.FormatErrorf(stream.Unsupported, "the zstd stream needs a dictionary, which is not in the file: compress the file without one")
		}
		return nil
	}}
	return &windowed{decoder: d, held: frames.widest.Load, confine: func(o Options) { frames.most.Store(o.MemoryBytes) }}, nil
}
