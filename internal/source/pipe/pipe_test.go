package pipe_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/pipe"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// feed answers the end of a pipe from which content can be read, and what waits until all of it was.
func feed(t *testing.T, content []byte) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.Write(content) // a test that stops reading breaks the pipe
		_ = w.Close()           // likewise
	}()
	t.Cleanup(func() {
		_ = r.Close() // so that the writer ends
		<-done
	})
	return r
}

func TestAPipeIsASource(t *testing.T) {
	sourcetest.Suite(t, func(t *testing.T, content []byte) source.Source {
		return pipe.New(feed(t, content), "standard input")
	})
}

func TestAPipePassesByOnce(t *testing.T) {
	for name, second := range map[string][2]int64{
		"from the beginning": {0, -1},
		"at another place":   {7, -1},
		"only a part":        {0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			s := pipe.New(feed(t, []byte("content")), "standard input")
			r, err := s.Open(t.Context(), 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			_, err = s.Open(t.Context(), second[0], second[1])
			var e *source.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			want := source.Error{Reason: source.ForwardOnly, Permanent: true, Message: "standard input passes by once and can't be read a second time: save it as a file first"}
			if diff := cmp.Diff(want, *e); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestASilentPipeIsLeft waits for bytes that never come.
func TestASilentPipeIsLeft(t *testing.T) {
	silent, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s := pipe.New(silent, "standard input")
	r, err := s.Open(ctx, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := io.ReadAll(r)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
