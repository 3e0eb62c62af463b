package imagetest

import (
	"bytes"
	"context"
	"io"
	"testing"

	"vmdisk.io/vmdisk/internal/image"
)

// Resumed says how an interrupted pass went on.
type Resumed struct {
	// Marks are the different ones that the pass handed over, without 0.
	Marks []int64
	// Pieces is how many pieces it handed over.
	Pieces int
}

// Last is the last mark, or 0 for none.
func (r Resumed) Last() int64 {
	if len(r.Marks) == 0 {
		return 0
	}
	return r.Marks[len(r.Marks)-1]
}

// RequireResume stops a forward pass after a piece with each of up to most marks, starts another one there, and requires
// that both together give the disk, and that the second one reads no more than what the image has behind the mark and as
// many bytes besides as besides allows for it: the tables, and what nobody could know to be wanted before.
func RequireResume(t testing.TB, way Way, content, disk []byte, most int, besides func(start int64) int64) Resumed {
	t.Helper()
	pieces, err := handedOver(way, content, 0, nil)
	if way.excuses(err) {
		return Resumed{}
	}
	if err != nil {
		t.Fatal(err)
	}
	result := Resumed{Pieces: len(pieces)}
	var stops []int // the first piece with each mark
	for i, p := range pieces {
		if p.Mark < result.Last() || p.Mark >= int64(len(content)) {
			t.Fatalf("piece %d: the mark is %d, after %d, in an image of %d bytes", i, p.Mark, result.Last(), len(content))
		}
		if p.Mark > result.Last() {
			result.Marks = append(result.Marks, p.Mark)
			stops = append(stops, i)
		}
	}
	got, stored := make([]byte, len(disk)), 0
	for n := range min(most, len(stops)) {
		stop := stops[n*len(stops)/min(most, len(stops))]
		for ; stored <= stop; stored++ {
			pieces[stored].store(got)
		}
		requireResumed(t, way, content, disk, bytes.Clone(got), pieces[stop].Mark, besides)
	}
	return result
}

// requireResumed goes on from start with a disk to which everything was stored that was handed over until then.
func requireResumed(t testing.TB, way Way, content, want, got []byte, start int64, besides func(start int64) int64) {
	t.Helper()
	count := &counter{}
	pieces, err := handedOver(way, content, start, count)
	if err != nil {
		t.Fatalf("from %d on: %v", start, err)
	}
	last := start
	for _, p := range pieces {
		p.store(got)
		if p.Mark < last {
			t.Fatalf("from %d on: the mark falls from %d to %d", start, last, p.Mark)
		}
		last = p.Mark
	}
	if !bytes.Equal(got, want) {
		t.Errorf("from %d on it is another disk", start)
		RequireEqual(t, got, want)
	}
	if rest, more := int64(len(content))-start, besides(start); count.bytes > rest+more {
		t.Errorf("from %d on %d bytes were read, %d more than there are behind it, and %d are allowed", start, count.bytes, count.bytes-rest, more)
	}
}

// stored is a piece with its decoded bytes.
type stored struct {
	image.Piece
	full []byte
}

func (s stored) store(disk []byte) { copy(disk[s.Offset:s.Offset+int64(s.Len)], s.full) }

// handedOver answers what a pass hands over.
func handedOver(way Way, content []byte, start int64, count *counter) ([]stored, error) {
	f, in, err := way.begin(content)
	if err != nil {
		return nil, err
	}
	in.Start = start
	in.Stream = bytes.NewReader(content[start:])
	if count != nil {
		count.stream, count.random = in.Stream, bytes.NewReader(content)
		in.Stream, in.Random = count, count
	}
	var pieces []stored
	err = f.Run(context.Background(), in, decodeTo(func(p image.Piece, full []byte) {
		pieces = append(pieces, stored{p, bytes.Clone(full)})
	}))
	return pieces, err
}

// counter counts what is read, forward or anywhere.
type counter struct {
	stream io.Reader
	random io.ReaderAt
	bytes  int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	c.bytes += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (c *counter) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.random.ReadAt(p, offset)
	c.bytes += int64(n)
	return n, err
}
