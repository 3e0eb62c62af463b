// Package transfer puts the data plane together: it reads an image from a source once, forward, decodes it on all
// cores, and fills a target with the disk inside. It is the same whether it runs in a worker's pod or on a laptop.
//
// It must not know one format, source or target from another, nor anything of Kubernetes or of job.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/formats"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
)

// LargerThanDisk is the refusal of an image whose disk doesn't fit the target.
const LargerThanDisk image.Reason = "ImageLargerThanDisk"

// patience is how long a connection may lie idle while the target is made zero, before it is closed and made again.
const patience = 10 * time.Second

// Job is one transfer.
type Job struct {
	Source source.Source
	// Target is the disk to be filled; nil where only the image tells how large it is to be, see Make.
	Target target.Target
	// Make makes the target, where Target is nil, for a disk of so many bytes, which may be image.Unknown. A target.Resizer
	// of another length is made as long as the disk. Whoever calls Run closes it.
	Make func(size int64) (target.Target, error)
	// Format is what the image must be; empty: whatever it is.
	Format image.Format
	// Checksum is over the source's bytes as served. The zero Checksum expects nothing.
	Checksum stream.Checksum
	// Member names the disk's file in a tar archive. Empty: exactly one file there must be a disk.
	Member string
	// Limits bound what the image can make us do.
	Limits image.Limits
	// Workers is how many goroutines decode and write; default one for each core.
	Workers int
	// Progress is called now and then, by one goroutine at a time, with what is done of how much; see Progress of
	// package job. May be nil.
	Progress func(done, total int64)
	// Checkpoint is called with how far the transfer has come for good, by one goroutine at a time. It is never called where
	// nobody could go on from there: with a source that can't be read from the middle, or an image that can't be entered
	// there. May be nil.
	Checkpoint func(Checkpoint) error
	// CheckpointBytes is how far apart checkpoints are, in bytes of the source; default a 64th of its length, at least 1 MiB and
	// at most 256 MiB.
	CheckpointBytes int64
	// Resume is a checkpoint to go on from, if that is possible; Report says whether it was.
	Resume *Checkpoint
	// Resumed is called once where there is a Resume, with the offset in the image at which the transfer goes on, or with why it
	// can't and starts over. The target has not been changed yet, and stays so if the answer is an error, which ends the transfer.
	// Whoever keeps a checkpoint must have forgotten it before a transfer starts over: on a target that was cleared, it would
	// lead to holes. May be nil.
	Resumed func(at int64, startsOver string) error
	// Hash asks for the hash of the disk's content, Report.ContentHash.
	Hash bool
	// Verify reads the disk back from its storage at the end, and fails where it isn't what was written. What an earlier
	// attempt has written is only read.
	Verify bool
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// Run fills the target. It answers *source.Error, *image.Refused, *stream.ChecksumError and *target.Error, wrapped or
// not, and what wraps ctx.Err() when ctx is done. The target is only touched after the image's header was found good.
func Run(ctx context.Context, j Job) (report Report, err error) {
	if j.Now == nil {
		j.Now = time.Now
	}
	if j.Workers <= 0 {
		j.Workers = runtime.GOMAXPROCS(0)
	}
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	description, err := j.Source.Describe(reading)
	if err != nil {
		return report, err
	}
	t := &transfer{Job: j, reading: reading, cancel: cancel, description: description}
	defer func() {
		report = t.report()
		if closeErr := t.close(); err == nil && closeErr != nil {
			err = closeErr
		}
	}()
	return report, t.run(ctx)
}

// transfer is one Run.
type transfer struct {
	Job
	reading     context.Context // of all that is read: done when the Run's is, or the target fails
	cancel      func()          // ends reading
	description source.Description
	forward     image.Forward // once the header is known

	began int64 // the disk's size as the header tells it, in bytes, or image.Unknown

	packed   *Content // the image out of its wrappers, once the source was opened
	body     io.ReadCloser
	endBody  context.CancelFunc // ends the body's reading
	counter  *stream.Counter
	verifier *stream.Verifier
	random   *countingReaderAt // nil where the source can't
	again    int64             // bytes that were read by a body before this one
	pool     *pool
	done     int64 // bytes of the disk that were handed over
	shared   *image.Sharing
	// skipsHoles: the image is read where it isn't a hole, so that the bytes which were read don't tell how far the transfer is.
	skipsHoles bool
	end        int64 // where on the disk the last of them lies

	start       int64 // where in the image the pass begins
	opened      int64 // where in the source the body begins
	kept        int64 // the mark of the last checkpoint
	startedOver string

	hash        *diskHash // where it is wanted
	contentHash string
}

func (t *transfer) run(ctx context.Context) error {
	if t.Resume != nil {
		whole, err := t.resume()
		if err != nil {
			return err
		}
		if t.Resumed != nil {
			if err := t.Resumed(t.start, t.startedOver); err != nil {
				return err
			}
		}
		if whole != nil {
			return t.fill(ctx, whole)
		}
	}
	whole, err := t.openAt(stream.State{})
	if err != nil {
		return err
	}
	if err := t.begin(whole); err != nil {
		return err
	}
	if err := t.makeTarget(); err != nil {
		return err
	}
	started := t.Now()
	if err := t.Target.Clear(ctx); err != nil {
		return err
	}
	if t.Now().Sub(started) > patience && !t.description.Once {
		if whole, err = t.openAt(stream.State{}); err != nil {
			return err
		}
		if err := t.unwrap(whole); err != nil {
			return err
		}
	}
	return t.fill(ctx, whole)
}

// makeTarget makes the target if there is none yet, and compares its size.
func (t *transfer) makeTarget() (err error) {
	if t.Target == nil {
		if t.Target, err = t.Make(t.began); err != nil {
			return err
		}
	}
	if least := image.AtLeast(t.forward); least > t.Target.Size() {
		return t.tooLarge(least)
	}
	return nil
}

// fill copies what is to be read into the target, and brings it to its end.
func (t *transfer) fill(ctx context.Context, whole io.Reader) error {
	if err := t.copy(ctx, whole); err != nil {
		return err
	}
	if known := t.forward.Size(); known > t.Target.Size() { // only now, and nothing was stored behind the target's end
		return t.tooLarge(known)
	}
	if r, ok := t.Target.(target.Resizer); ok && t.began == image.Unknown && t.Make != nil {
		if err := r.Resize(t.size()); err != nil {
			return err
		}
	}
	if err := t.hashContent(ctx); err != nil {
		return err
	}
	if err := t.Target.Commit(); err != nil {
		return err
	}
	t.done = max(t.done, t.forward.Size()) // what wasn't handed over is zero
	t.end = max(t.end, t.done)
	t.progress()
	return nil
}

// hashContent brings the hash of the disk's content to its end, and compares the disk with it, as far as that is asked for.
func (t *transfer) hashContent(ctx context.Context) (err error) {
	if t.hash == nil {
		return nil
	}
	if t.contentHash, err = t.hash.finish(ctx, t.size(), t.start > 0, t.Workers); err != nil || !t.Verify {
		return err
	}
	if t.contentHash == "" {
		return &target.Error{Reason: target.IO, Message: "the disk can't be verified: more of it is in use than is remembered"}
	}
	if err := t.Target.Sync(); err != nil {
		return err
	}
	if cached, ok := t.Target.(target.Cached); ok {
		if err := cached.DropCache(); err != nil {
			return err
		}
	}
	return t.hash.verify(ctx, t.size(), t.Workers)
}

// begin comes to the image in the source's bytes, and judges it by its beginning.
func (t *transfer) begin(whole io.Reader) (err error) {
	if err := t.unwrap(whole); err != nil {
		return err
	}
	beginning := formats.Beginning{Head: t.packed.Head, Length: t.packed.Length}
	if t.random != nil && !t.wrapped() {
		beginning.Random = t.random
	}
	if t.forward, err = formats.BeginAs(t.Format, beginning, t.Limits); err != nil {
		return err
	}
	t.began = t.forward.Size()
	return nil
}

// unwrap comes to the image in the source's bytes.
func (t *transfer) unwrap(whole io.Reader) (err error) {
	w := Wrapping{Length: t.description.Length, Format: t.Format, Member: t.Member, Limits: t.Limits}
	if t.Target != nil {
		w.DiskBytes = t.Target.Size()
	}
	var refused *image.Refused
	if t.packed, err = Unwrap(whole, w); err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("read %s: %w", t.description.Name, err)
	}
	return err
}

// wrapped reports whether the image is a part of the source's bytes only.
func (t *transfer) wrapped() bool { return len(t.packed.Wrappers) > 0 }

// openAt begins to read the source, again if need be, from where its checksum stands in a state. It answers nil where that
// state is none.
func (t *transfer) openAt(from stream.State) (io.Reader, error) {
	if err := t.close(); err != nil {
		return nil, err
	}
	reading, end := context.WithCancel(t.reading)
	body, err := t.Source.Open(reading, from.Offset, -1)
	if err != nil {
		end()
		return nil, err
	}
	if t.counter != nil {
		t.again += t.counter.Bytes()
	}
	t.body, t.endBody, t.counter, t.opened = body, end, stream.Count(body), from.Offset
	t.allowRandom()
	t.verifier, err = stream.VerifyFrom(t.counter, t.Checksum, from)
	if err != nil {
		return nil, nil // the only thing that can be wrong is the state
	}
	return t.verifier, nil
}

// allowRandom lets the image be read at any place, where the source can.
func (t *transfer) allowRandom() {
	if t.description.Ranges && t.random == nil {
		t.random = &countingReaderAt{r: source.ReaderAt{Context: t.reading, Source: t.Source}}
	}
}

// close ends the reading of the source.
func (t *transfer) close() error {
	var errs []error
	if t.body != nil {
		t.endBody() // a wrapper may be waiting for it
	}
	if t.packed != nil {
		errs = append(errs, t.packed.Close())
	}
	if t.body != nil {
		errs = append(errs, t.body.Close())
		t.body = nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", t.description.Name, err)
	}
	return nil
}

// copy decodes the whole image into the target, and reads what is left of the source where it must be hashed.
func (t *transfer) copy(ctx context.Context, whole io.Reader) error {
	if t.Hash || t.Verify {
		t.hash = newDiskHash(t.Target)
	}
	t.pool = newPool(ctx, t.Target, t.hash, t.Workers, t.start)
	stop := context.AfterFunc(t.pool.ctx, t.cancel) // so that nobody waits for bytes that have no place
	ended := make(chan struct{})
	if t.Checkpoint != nil && t.version() != "" {
		t.pool.start(func() error { return t.keep(ended) })
	}
	if t.hash != nil && t.began != image.Unknown {
		t.pool.start(func() error { return t.hash.follow(t.began, ended) })
	}
	in := image.Input{Stream: t.packed.Stream, Start: t.start, Limits: t.Limits}
	in.Limits.MemoryBytes = t.packed.memory
	t.shared = image.NewSharing(t.forward.Format(), t.packed.Length)
	if t.random != nil && !t.wrapped() {
		in.Random = source.NewCache(t.random, t.description.Length)
		if finder, ok := t.Source.(image.HoleFinder); ok && t.Checksum.IsZero() {
			in.Sparse, t.skipsHoles = sparse{t.random, finder}, t.forward.Format() == image.Raw
		}
	}
	err := t.forward.Run(t.pool.ctx, in, t.sink)
	if err == nil {
		err = t.packed.Finish()
	}
	if err == nil && !t.Checksum.IsZero() {
		if _, err = io.Copy(io.Discard, whole); err != nil {
			err = fmt.Errorf("read the rest of %s: %w", t.description.Name, err)
		}
	}
	close(ended)
	stop()
	if poolErr := t.pool.wait(); poolErr != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = poolErr // what went wrong first
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		err = fmt.Errorf("read %s: %w", t.description.Name, ctxErr)
	}
	if err != nil {
		if saveErr := t.saveLast(ctx, err); saveErr != nil {
			return errors.Join(err, saveErr)
		}
	}
	return err
}

// sink takes one piece of the disk.
func (t *transfer) sink(p image.Piece, stored []byte) error {
	if end := max(p.Offset+int64(p.Len), t.forward.Size()); end > t.Target.Size() {
		return t.tooLarge(end)
	}
	if p.Encoding == image.Plain {
		if err := t.shared.Add(int64(p.Len)); err != nil {
			return err
		}
	}
	t.done += int64(p.Len)
	t.end = max(t.end, p.Offset+int64(p.Len))
	t.progress()
	return t.pool.put(p, stored)
}

// sparse is a source that knows its holes.
type sparse struct {
	io.ReaderAt
	image.HoleFinder
}

// size is the length of the disk in bytes, at the end also where only the end tells. It has whole sectors.
func (t *transfer) size() int64 {
	if size := t.forward.Size(); size != image.Unknown {
		return size
	}
	return (t.end + image.SectorSize - 1) / image.SectorSize * image.SectorSize
}

func (t *transfer) tooLarge(size int64) error {
	atLeast := ""
	if t.forward.Size() == image.Unknown {
		atLeast = "at least "
	}
	return image.Refuse(LargerThanDisk, "the disk in the image has %s%d bytes, and the disk to be filled has %d: ask for one that is large enough", atLeast, size, t.Target.Size())
}
