package unpack

import (
	"io"

	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/stream/xz"
)

// XZ unpacks an .xz file, which may have several streams, one behind the other, with padding (The .xz File Format 1.2.1,
// section 2).
func XZ(r io.Reader, o Options) Windowed {
	origin := stream.Remember(r, barrenBytes+o.MemoryBytes) // which it may read before it decodes any
	x := xz.NewReader(origin, xz.Options{MemoryBytes: o.MemoryBytes, Workers: o.Workers})
	d := &decoder{r: x, origin: origin, name: "xz", close: func() { _ = x.Close() }} // it answers no error
	return &windowed{decoder: d, held: x.Held, confine: func(o Options) { x.Confine(xz.Options(o)) }}
}
