package http

import (
	"context"
	"io"
	"sync"
)

// segment is a part of an object that is fetched ahead of its reader, into memory.
type segment struct {
	offset int64
	buf    []byte // as long as the segment
	pos    int    // what the reader has taken of it; the reader's alone
	cancel context.CancelFunc
	more   chan struct{} // has one element when there is news

	mu       sync.Mutex
	answered bool // the server has begun to send it
	filled   int
	err      error // how it ended: io.EOF when it is whole
}

func newSegment(offset int64, buf []byte, cancel context.CancelFunc) *segment {
	return &segment{offset: offset, buf: buf, cancel: cancel, more: make(chan struct{}, 1)}
}

func (s *segment) end() int64 { return s.offset + int64(len(s.buf)) }

// fetch fills the segment, with one request and without mending. It ends when ctx is done.
func (s *segment) fetch(ctx context.Context, from *httpSource) {
	r, err := from.ask(ctx, request{more: true}, s.offset, s.end())
	if err != nil {
		s.news(0, false, err)
		return
	}
	defer r.close()
	s.news(0, true, nil)
	for at := 0; at < len(s.buf); {
		n, err := r.Read(s.buf[at:])
		at += n
		switch {
		case at == len(s.buf):
			r.seeEnd(err)
			err = io.EOF
		case err == io.EOF: //nolint:errorlint // a wrapped one is another failure
			err = io.ErrUnexpectedEOF
		}
		s.news(n, true, err)
		if err != nil {
			return
		}
	}
}

// seeEnd reads the end of an answer whose bytes have all come, so that its connection can be used again. err is what the
// last read has answered.
func (r *response) seeEnd(err error) {
	if err == nil && r.ContentLength < 0 {
		_, _ = r.Read(make([]byte, 1)) // it only costs a connection
	}
}

// news is called by fetch.
func (s *segment) news(n int, answered bool, err error) {
	s.mu.Lock()
	s.filled += n
	s.answered = s.answered || answered
	s.err = err
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// state is how far it is.
func (s *segment) state() (filled int, answered bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filled, s.answered, s.err
}

// Read implements io.Reader. It waits for bytes, and ends with io.EOF only when the segment is whole.
func (s *segment) Read(p []byte) (int, error) {
	for {
		filled, _, err := s.state()
		if s.pos < filled {
			n := copy(p, s.buf[s.pos:filled])
			s.pos += n
			return n, nil
		}
		if err != nil {
			return 0, err
		}
		<-s.more
	}
}
