package transfer

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/image"
	"vmdisk.io/vmdisk/internal/image/imagetest"
	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
	"vmdisk.io/vmdisk/internal/stream"
	"vmdisk.io/vmdisk/internal/target"
)

// volatile is a disk that remembers what a crash would leave of it.
type volatile struct {
	*target.Memory
	id      string
	durable []byte
}

func newVolatile(size int64) *volatile {
	return &volatile{Memory: target.NewMemory(size), id: "disk", durable: bytes.Repeat([]byte{0xa5}, int(size))}
}

func (v *volatile) Identity() string { return v.id }

func (v *volatile) Sync() error {
	durable := make([]byte, v.Size())
	if _, err := v.ReadAt(durable, 0); err != nil {
		return err
	}
	v.durable = durable
	return nil
}

// crash answers the disk after a crash: of what was written after the last Sync each block is there, or isn't.
func (v *volatile) crash(t *testing.T, survives func() bool) *volatile {
	t.Helper()
	after := newVolatile(v.Size())
	written, _ := v.Bytes()
	for at := 0; at < len(written); at += blockSize {
		from := v.durable
		if survives() {
			from = written
		}
		if _, err := after.WriteAt(from[at:min(at+blockSize, len(written))], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	return after
}

// TestATransferGoesOnAfterACrash breaks off at many places, and goes on from the last checkpoint with a disk that has
// dropped what wasn't synced, or a part of that.
func TestATransferGoesOnAfterACrash(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	crashes := map[string]func() bool{
		"all that wasn't synced is lost": func() bool { return false },
		"some of it is":                  func() bool { return random.IntN(2) == 0 },
	}
	recipes := imagetest.Recipes()
	images := map[string]func() (path string, disk []byte){
		"raw": func() (string, []byte) {
			path := t.TempDir() + "/disk.raw"
			if err := os.WriteFile(path, imagetest.Disk(), 0o600); err != nil {
				t.Fatal(err)
			}
			return path, imagetest.Disk()
		},
		"vmdk": func() (string, []byte) {
			return imagetest.MakeAs(t, t.TempDir(), "vmdk", imagetest.Recipe{Options: "subformat=streamOptimized"})
		},
		"vhd": func() (string, []byte) {
			return imagetest.MakeAs(t, t.TempDir(), "vpc", imagetest.Recipe{Options: "force_size=on"})
		},
		"vhd, fixed": func() (string, []byte) {
			return imagetest.MakeAs(t, t.TempDir(), "vpc", imagetest.Recipe{Options: "force_size=on,subformat=fixed"})
		},
		"vdi": func() (string, []byte) {
			return imagetest.MakeAs(t, t.TempDir(), "vdi", imagetest.Recipe{})
		},
		"vhdx": func() (string, []byte) {
			return imagetest.MakeAs(t, t.TempDir(), "vhdx", imagetest.Recipe{Options: "block_size=1M"})
		},
	}
	for _, name := range []string{"version 3", "clusters of 4 KiB, zstd", "zlib and plain mixed", "extended L2 entries"} {
		images["qcow2, "+name] = func() (string, []byte) { return imagetest.Make(t, t.TempDir(), recipes[name]) }
	}
	for name, make := range images {
		t.Run(name, func(t *testing.T) {
			path, want := make()
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			resumed := 0
			for crash, survives := range crashes {
				for part := range int64(6) {
					disk := newVolatile(int64(len(want)) + 8192)
					last := breakOff(t, brokenOff(t, content, disk, int64(len(content))*(part+2)/8))
					if last == nil {
						continue
					}
					after := disk.crash(t, survives)
					report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: content}, Target: after, Checksum: checksumOf(t, content), Resume: ParseCheckpoint(last.Encode())})
					if err != nil {
						t.Fatalf("%s, part %d, from %d: %v", crash, part, last.Mark, err)
					}
					requireDisk(t, after.Memory, want)
					if report.ResumedAt != last.Mark || report.StartedOver != "" {
						t.Errorf("%s, part %d: at %d, started over: %q; want %d", crash, part, report.ResumedAt, report.StartedOver, last.Mark)
					}
					if most := int64(len(content)) - last.Mark + 4<<20; report.ReadBytes > most {
						t.Errorf("%s, part %d: %d bytes were read from %d of %d on", crash, part, report.ReadBytes, last.Mark, len(content))
					}
					resumed++
				}
			}
			if resumed < 4 {
				t.Errorf("only %d transfers went on", resumed)
			}
		})
	}
}

// breakOff does a transfer whose source breaks, and answers the last checkpoint.
func breakOff(t *testing.T, j Job) (last *Checkpoint) {
	t.Helper()
	j.CheckpointBytes = 1 << 17
	j.Checkpoint = func(c Checkpoint) error {
		if last != nil && c.Mark <= last.Mark {
			t.Errorf("the mark went from %d to %d", last.Mark, c.Mark)
		}
		last = &c
		return nil
	}
	_, err := Run(t.Context(), j)
	var broken *source.Error
	if !errors.As(err, &broken) {
		t.Fatalf("it did not break off: %v", err)
	}
	return last
}

// brokenOff is a transfer of an image that breaks off after so many bytes.
func brokenOff(t *testing.T, content []byte, disk target.Target, after int64) Job {
	t.Helper()
	return Job{Source: &breaking{sourcetest.Memory{Content: content}, after}, Target: disk, Checksum: checksumOf(t, content)}
}

// breaking is a source of which what lies at or behind an offset can't be read as a stream.
type breaking struct {
	sourcetest.Memory
	at int64
}

func (b *breaking) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := b.Memory.Open(ctx, offset, length)
	if length >= 0 {
		return r, err
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(r, b.at-offset), iotestErr{&source.Error{Reason: source.ConnectionReset, Message: "reset"}})), err
}

// changed is a source that is another version of itself.
type changed struct{ sourcetest.Memory }

func (c *changed) Describe(ctx context.Context) (source.Description, error) {
	d, err := c.Memory.Describe(ctx)
	d.Validator = "2"
	return d, err
}

func TestWhatCannotBeGoneOnFromStartsOver(t *testing.T) {
	content := imagetest.Disk()
	memory := &sourcetest.Memory{Content: content}
	tests := map[string]struct {
		source source.Source
		change func(c *Checkpoint, j *Job, disk *volatile)
		want   string
	}{
		"the source has changed":             {source: &changed{*memory}, want: "the source has changed"},
		"it is longer now":                   {source: &sourcetest.Memory{Content: append(bytes.Clone(content), 0)}, want: "the source has changed"},
		"it can't be read from the middle":   {source: &sourcetest.Memory{Content: content, Forward: true}, want: "the source can't be read from the middle: it serves no ranges, or tells nothing by which a change would be noticed"},
		"another disk is to be filled":       {change: func(_ *Checkpoint, _ *Job, disk *volatile) { disk.id = "another" }, want: "the disk is not the one that was begun"},
		"a disk of which nothing is known":   {change: func(_ *Checkpoint, _ *Job, disk *volatile) { disk.id = "" }, want: "the disk is not the one that was begun"},
		"another checksum":                   {change: func(_ *Checkpoint, j *Job, _ *volatile) { j.Checksum = stream.Checksum{} }, want: "another checksum is asked for"},
		"another format":                     {change: func(c *Checkpoint, _ *Job, _ *volatile) { c.Format = image.QCOW2 }, want: "the checkpoint is of another image"},
		"another size":                       {change: func(c *Checkpoint, _ *Job, _ *volatile) { c.DiskBytes++ }, want: "the checkpoint is of another image"},
		"a checkpoint of another version":    {change: func(c *Checkpoint, _ *Job, _ *volatile) { c.Version++ }, want: "the checkpoint is spoilt, or of another version of vmdisk"},
		"a checkpoint of nothing":            {change: func(c *Checkpoint, _ *Job, _ *volatile) { *c = *ParseCheckpoint("{") }, want: "the checkpoint is spoilt, or of another version of vmdisk"},
		"a checkpoint behind the end":        {change: func(c *Checkpoint, _ *Job, _ *volatile) { c.Mark = int64(len(content)) }, want: "nothing was done yet that need not be done again"},
		"a checksum's state that is noise":   {change: func(c *Checkpoint, _ *Job, _ *volatile) { c.Hash = []byte("noise") }, want: "the checkpoint is spoilt"},
		"a checksum's state behind the mark": {change: func(c *Checkpoint, _ *Job, _ *volatile) { c.HashedBytes = c.Mark + 1 }, want: "the checkpoint is spoilt, or of another version of vmdisk"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			disk := newVolatile(imagetest.DiskBytes + 512)
			last := breakOff(t, brokenOff(t, content, disk, 5<<20))
			if last == nil {
				t.Fatal("there is no checkpoint")
			}
			j := Job{Source: memory, Target: disk, Checksum: checksumOf(t, content), Resume: last}
			if test.source != nil {
				j.Source = test.source
			}
			if test.change != nil {
				test.change(last, &j, disk)
			}
			var told []string
			j.Resumed = func(at int64, startsOver string) error {
				told = append(told, startsOver)
				if at != 0 {
					t.Errorf("it goes on at %d", at)
				}
				return nil
			}
			report, err := Run(t.Context(), j)
			if diff := cmp.Diff([]string{test.want}, told); diff != "" {
				t.Errorf("whoever keeps the checkpoint was told otherwise: %s", diff)
			}
			var mismatch *stream.ChecksumError
			if name == "it is longer now" {
				if !errors.As(err, &mismatch) {
					t.Errorf("got %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				requireDisk(t, disk.Memory, content)
			}
			if diff := cmp.Diff(test.want, report.StartedOver); diff != "" || report.ResumedAt != 0 {
				t.Errorf("%sresumed at %d", diff, report.ResumedAt)
			}
		})
	}
}

// TestNoCheckpointIsMadeThatNobodyCouldGoOnFrom has a source and a disk of which nothing can be known again.
func TestNoCheckpointIsMadeThatNobodyCouldGoOnFrom(t *testing.T) {
	content := imagetest.Disk()
	unknown := newVolatile(imagetest.DiskBytes + 512)
	unknown.id = ""
	for name, j := range map[string]Job{
		"a source without ranges": {Source: &sourcetest.Memory{Content: content, Forward: true}, Target: newVolatile(imagetest.DiskBytes + 512)},
		"a disk without identity": {Source: &sourcetest.Memory{Content: content}, Target: unknown},
	} {
		t.Run(name, func(t *testing.T) {
			j.CheckpointBytes = 1
			j.Checkpoint = func(c Checkpoint) error { t.Errorf("%+v", c); return nil }
			if _, err := Run(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestWhatIsPackedStartsOver has an image in gzip that breaks off, and a checkpoint of the packed bytes as a raw disk.
func TestWhatIsPackedStartsOver(t *testing.T) {
	content := imagetest.Disk()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), Job{
		Source: &breaking{sourcetest.Memory{Content: packed.Bytes()}, int64(packed.Len() * 3 / 4)}, Target: newVolatile(imagetest.DiskBytes), CheckpointBytes: 1,
		Checkpoint: func(c Checkpoint) error { t.Errorf("%+v", c); return nil },
	})
	var broken *source.Error
	if !errors.As(err, &broken) {
		t.Errorf("got %v", err)
	}
	disk := newVolatile(imagetest.DiskBytes)
	last := breakOff(t, Job{Source: &breaking{sourcetest.Memory{Content: packed.Bytes()}, int64(packed.Len() * 3 / 4)}, Target: disk, Format: image.Raw})
	if last == nil {
		t.Fatal("there is no checkpoint")
	}
	report, err := Run(t.Context(), Job{Source: &sourcetest.Memory{Content: packed.Bytes()}, Target: disk, Resume: last})
	if err != nil {
		t.Fatal(err)
	}
	requireDisk(t, disk.Memory, content)
	if diff := cmp.Diff("what the image is packed in can't be entered in the middle", report.StartedOver); diff != "" {
		t.Error(diff)
	}
}

// TestACheckpointThatCannotBeKeptEndsATransfer has a place for checkpoints that is full.
func TestACheckpointThatCannotBeKeptEndsATransfer(t *testing.T) {
	full := errors.New("full")
	content := imagetest.Disk()
	_, err := Run(t.Context(), Job{
		Source: &slowSource{sourcetest.Memory{Content: content}}, Target: newVolatile(imagetest.DiskBytes + 512), CheckpointBytes: 1,
		Checkpoint: func(Checkpoint) error { return full },
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

// slowSource never ends on its own: it goes on when the transfer has ended.
type slowSource struct{ sourcetest.Memory }

func (s *slowSource) Open(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	r, err := s.Memory.Open(ctx, offset, length)
	return io.NopCloser(io.MultiReader(io.LimitReader(r, 4<<20), untilDone{ctx})), err
}

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// TestZerosDoNotHoldUpTheWatermark has a little data, and then nothing but zeros.
func TestZerosDoNotHoldUpTheWatermark(t *testing.T) {
	p := newPool(t.Context(), target.NewMemory(64<<20), nil, 1, 0)
	const piece, end = 1 << 20, 32 << 20
	for at := int64(0); at < end; at += piece {
		stored := make([]byte, piece)
		if at == 0 {
			stored[0] = 1
		}
		if err := p.put(image.Piece{Offset: at, Len: piece, Full: piece, Encoding: image.Plain, Mark: at + piece}, stored); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.After(30 * time.Second); p.marks.reached() < end; {
		select {
		case <-p.marks.moved:
		case <-deadline:
			t.Fatalf("of %d bytes %d are through before the end", int64(end), p.marks.reached())
		}
	}
	if err := p.wait(); err != nil {
		t.Error(err)
	}
}

func TestTheWatermarkWaitsForTheOldestBatch(t *testing.T) {
	w := newWatermark(5)
	w.pass(10)
	first, second := w.add(20), w.add(30)
	w.pass(35) // belongs to the second
	steps := []int64{w.reached()}
	w.finish(second)
	steps = append(steps, w.reached())
	w.finish(first)
	steps = append(steps, w.reached())
	w.pass(40)
	steps = append(steps, w.reached())
	if diff := cmp.Diff([]int64{10, 10, 35, 40}, steps); diff != "" {
		t.Error(diff)
	}
}
