package stream

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestAReaderThatReadsAheadYieldsTheSame(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 1000)
	broken := errors.New("broken")
	for name, in := range map[string]func() io.Reader{
		"whole":        func() io.Reader { return bytes.NewReader(content) },
		"byte by byte": func() io.Reader { return iotest.OneByteReader(bytes.NewReader(content)) },
		"with its end": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(content)) },
	} {
		for _, length := range []int{1, 7, 10_000, 100_000} {
			for _, want := range []error{nil, broken} {
				r := in()
				if want != nil {
					r = io.MultiReader(r, iotest.ErrReader(want))
				}
				a := ReadAhead(r, length)
				got, err := io.ReadAll(a)
				if !errors.Is(err, want) || !bytes.Equal(got, content) {
					t.Errorf("%s, parts of %d: %d bytes, %v", name, length, len(got), err)
				}
				if _, err := a.Read(make([]byte, 1)); err == nil {
					t.Errorf("%s, parts of %d: more behind the end", name, length)
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// endless yields zeros, and counts them.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	e.n += len(p)
	clear(p)
	return len(p), nil
}

func TestAReaderThatReadsAheadStopsWhenItIsClosed(t *testing.T) {
	var in endless
	a := ReadAhead(&in, 10)
	if _, err := a.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if most := (aheadParts + 1) * 10; in.n > most { // and the race detector sees that nobody counts any more
		t.Errorf("%d bytes were read, want %d at most", in.n, most)
	}
}

type faulty struct{}

func (faulty) Read([]byte) (int, error) { panic("a fault") }

func TestAPanicOfTheReaderBelowIsRaisedWhereItIsRead(t *testing.T) {
	a := ReadAhead(faulty{}, 10)
	defer func() {
		if fault := recover(); fault != "a fault" {
			t.Errorf("got %v", fault)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := a.Read(make([]byte, 1)); err == nil {
		t.Error("no error")
	}
}
