package transfer

import (
	"io"

	"vmdisk.io/vmdisk/internal/image"
)

// Report is what a transfer has seen. It is filled as far as the transfer came, also where that ended with an error.
type Report struct {
	// Source names the source, without secrets; empty until it has answered.
	Source string
	Format image.Format
	// Wrappers are what the image is packed in, outermost first.
	Wrappers []image.Format
	// VirtualBytes is the size of the disk inside the image.
	VirtualBytes int64
	// ReadBytes were taken from the source, WrittenBytes were written to the target.
	ReadBytes, WrittenBytes int64
	// ContentHash names the disk's content, also where it comes in another image: "sha256-4MiB:" and, in hexadecimal digits, the
	// SHA-256 over the SHA-256 of each 4 MiB of the disk. Empty where it wasn't asked for, or more than a TiB is in use.
	ContentHash string
	// ResumedAt is the offset in the image from which the transfer went on; 0: it began at the beginning.
	ResumedAt int64
	// StartedOver says why the transfer didn't go on from the checkpoint that it had; empty where it did, or had none.
	StartedOver string
}

// progress reports how far the transfer is, in the source's bytes where their number is known, else in the disk's.
func (t *transfer) progress() {
	if t.Progress == nil {
		return
	}
	switch size := t.forward.Size(); {
	case t.skipsHoles && size > 0:
		t.Progress(max(t.start, t.end), size)
	case t.description.Length > 0:
		t.Progress(t.opened+t.counter.Bytes(), t.description.Length)
	case size > 0:
		t.Progress(t.done, size)
	default:
		t.Progress(t.done, 0)
	}
}

func (t *transfer) report() Report {
	r := Report{Source: t.description.Name, ReadBytes: t.again, ContentHash: t.contentHash, ResumedAt: t.start, StartedOver: t.startedOver}
	if t.packed != nil {
		r.Wrappers = t.packed.Wrappers
	}
	if t.counter != nil {
		r.ReadBytes += t.counter.Bytes()
	}
	if t.random != nil {
		r.ReadBytes += t.random.bytes
	}
	if t.pool != nil {
		r.WrittenBytes = t.pool.written.Load()
	}
	if t.forward != nil {
		r.Format = t.forward.Format()
		r.VirtualBytes = t.size()
	}
	return r
}

// countingReaderAt counts what is read through it.
type countingReaderAt struct {
	r     io.ReaderAt
	bytes int64
}

// ReadAt implements io.ReaderAt.
func (c *countingReaderAt) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.r.ReadAt(p, offset)
	c.bytes += int64(n)
	return n, err
}
