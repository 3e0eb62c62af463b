package target

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// windowBytes is how much is written before the kernel is told to bring it to the storage.
	windowBytes = 8 << 20
	// maxWindows is how many such windows may be on their way at a time; writers wait for the oldest one.
	maxWindows = 3
)

// writeback brings what is written to the storage while writing goes on. So few of the kernel's pages are dirty at any time: a
// slow disk holds the writers back instead of filling the memory of a small container, and a disk that fails is noticed, and
// named, near the place where it fails.
type writeback struct {
	f    *os.File
	path string

	mu      sync.Mutex
	written []part
	bytes   int64    // of written
	flying  [][]part // windows that are on their way, oldest first
	off     bool     // the filesystem doesn't know how
	err     error    // the first one: the kernel tells it only once, and whoever asks later must know it too
}

// part is a run of the disk.
type part struct{ offset, len int64 }

// wrote takes note of n bytes that were written at offset, and waits where too much is on its way.
func (w *writeback) wrote(offset int64, n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.off {
		return w.err
	}
	if last := len(w.written) - 1; last >= 0 && w.written[last].offset+w.written[last].len == offset {
		w.written[last].len += int64(n)
	} else {
		w.written = append(w.written, part{offset, int64(n)})
	}
	if w.bytes += int64(n); w.bytes < windowBytes {
		return nil
	}
	w.start()
	if len(w.flying) > maxWindows {
		w.finish()
	}
	return w.err
}

// start sends what was written on its way. It is called with mu held, as finish is.
func (w *writeback) start() {
	for _, r := range w.written {
		w.call(r, unix.SYNC_FILE_RANGE_WRITE)
	}
	w.flying = append(w.flying, w.written)
	w.written, w.bytes = nil, 0
}

// finish waits for the oldest window.
func (w *writeback) finish() {
	for _, r := range w.flying[0] {
		w.call(r, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
	w.flying = w.flying[1:]
}

func (w *writeback) call(r part, flags int) {
	if w.err != nil || w.off {
		return
	}
	err := retryInterrupted(func() error { return unix.SyncFileRange(int(w.f.Fd()), r.offset, r.len, flags) })
	if unsupported(err) {
		w.off = true
		return
	}
	w.err = classify(err, fmt.Sprintf("bring %d bytes at offset %d of %s to stable storage", r.len, r.offset, w.path))
}

// sync brings everything to stable storage. Once it has failed it always fails, since nobody knows then what is there.
func (w *writeback) sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.start(); len(w.flying) > 0; {
		w.finish()
	}
	if w.err == nil {
		w.err = classify(w.f.Sync(), "bring "+w.path+" to stable storage")
	}
	return w.err
}
