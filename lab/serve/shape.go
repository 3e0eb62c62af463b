package serve

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// shaper is a ResponseWriter that counts the body and slows, cuts or stalls it as the plan says.
type shaper struct {
	http.ResponseWriter
	request *http.Request
	plan    plan
	began   time.Time
	counter counter
	status  int
	sent    int64 // bytes of the body
}

// Unwrap lets http.ResponseController flush.
func (s *shaper) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *shaper) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
		s.counter.status(status)
	}
	s.ResponseWriter.WriteHeader(status)
}

// When the rate is limited, the body goes out in slices of at most so many bytes, and at least so often.
const (
	sliceBytes      = 64 << 10
	slicesPerSecond = 10
)

func (s *shaper) Write(body []byte) (int, error) {
	if s.status == 0 {
		s.WriteHeader(http.StatusOK)
	}
	written := 0
	for written < len(body) {
		slice := body[written:]
		if s.plan.bytesPerSecond > 0 {
			slice = slice[:min(int64(len(slice)), sliceBytes, s.plan.bytesPerSecond/slicesPerSecond+1)]
		}
		limit, limited := s.limit()
		if limited {
			slice = slice[:min(int64(len(slice)), limit-s.sent)]
		}
		if err := s.pace(int64(len(slice))); err != nil {
			return written, err
		}
		n, err := s.ResponseWriter.Write(slice)
		written += n
		s.sent += int64(n)
		s.counter.bytes(int64(n))
		if err != nil {
			return written, err
		}
		if limited && s.sent >= limit {
			s.end()
		}
	}
	return written, nil
}

// limit is after how many bytes the body ends early.
func (s *shaper) limit() (bytes int64, limited bool) {
	cut, stall := s.plan.cutAfter, s.plan.stallAfter
	switch {
	case cut < 0 && stall < 0:
		return 0, false
	case cut < 0 || (stall >= 0 && stall < cut):
		return stall, true
	default:
		return cut, true
	}
}

// end stalls until the client goes, or closes the connection in the middle of the body.
func (s *shaper) end() {
	s.flush()
	if limit, _ := s.limit(); s.plan.stallAfter == limit {
		<-s.request.Context().Done()
	}
	panic(http.ErrAbortHandler) // net/http's way to close the connection without ending the response
}

func (s *shaper) flush() {
	err := http.NewResponseController(s.ResponseWriter).Flush()
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		panic(http.ErrAbortHandler) // the client has gone
	}
}

// pace waits until the next bytes are within the rate.
func (s *shaper) pace(next int64) error {
	if s.plan.bytesPerSecond == 0 {
		return nil
	}
	s.flush()
	due := s.began.Add(time.Duration(float64(s.sent+next) / float64(s.plan.bytesPerSecond) * float64(time.Second)))
	select {
	case <-time.After(time.Until(due)):
		return nil
	case <-s.request.Context().Done():
		return s.request.Context().Err()
	}
}

// send writes a whole body.
func send(w http.ResponseWriter, body []byte) {
	if _, err := w.Write(body); err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
}

// copyAll sends the content; a body that must be chunked is flushed early, else net/http would add the length of a
// short one by itself.
func copyAll(w http.ResponseWriter, content io.Reader, chunked bool) {
	if chunked {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return // the client has gone
		}
	}
	// The status line is out: an error can only be that the client has gone, or that the file can't be read, and then
	// a short body is all that can be answered.
	if _, err := io.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// corrupted is a file with one byte changed on the way.
type corrupted struct {
	*os.File
	at     int64 // -1: none
	offset int64
}

func (c *corrupted) Seek(offset int64, whence int) (int64, error) {
	position, err := c.File.Seek(offset, whence)
	c.offset = position
	return position, err
}

func (c *corrupted) Read(buffer []byte) (int, error) {
	n, err := c.File.Read(buffer)
	if c.at >= c.offset && c.at < c.offset+int64(n) {
		buffer[c.at-c.offset] ^= 0xFF
	}
	c.offset += int64(n)
	return n, err
}

// WriteTo hides that of the file, which would go around Read.
func (c *corrupted) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}
