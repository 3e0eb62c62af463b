package sourcetest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Behaviour is how a Server answers. The zero Behaviour is a server that does everything right.
type Behaviour struct {
	// Content is the object.
	Content []byte
	// NoRange answers a range request with the whole object.
	NoRange bool
	// ClaimRanges makes a server with NoRange say that it has ranges.
	ClaimRanges bool
	// NoValidator sends neither ETag nor Last-Modified.
	NoValidator bool
	// LastModified sends that in place of an ETag.
	LastModified bool
	// JustModified sends a Last-Modified that is now, in place of an ETag.
	JustModified bool
	// NoDate sends no Date.
	NoDate bool
	// WeakETag sends the ETag as a weak one.
	WeakETag bool
	// WholeAs200 answers a request for all bytes as a range with 200, and other ranges with 206.
	WholeAs200 bool
	// MaxPart answers at most so many bytes of a range; 0: all.
	MaxPart int64
	// LengthOff is added to each Content-Length that is announced.
	LengthOff int
	// IgnoreIfRange answers a range request with a range also when the object has changed.
	IgnoreIfRange bool
	// Chunked sends no Content-Length.
	Chunked bool
	// CutAfter cuts each answer off after so many bytes of its body; 0: never.
	CutAfter int
	// Cuts is how many answers are cut off; 0: all.
	Cuts int
	// ChangeAfter makes the object another one of the same length after so many answers; 0: never.
	ChangeAfter int
	// StallAfter stops sending after so many bytes, until the client is gone; 0: never.
	StallAfter int
	// Status answers the requests of the same number with that status; 0, or behind the last: as usual.
	Status []int
	// Said is the text of an answer of Status or Check.
	Said string
	// Header is added to each answer.
	Header http.Header
	// Check is called with each request; where it answers a status, that is the answer.
	Check func(r *http.Request) int
	// Delay is how long each answer takes to begin.
	Delay time.Duration
	// BytesPerSecond bounds each answer, TotalBytesPerSecond all of them together; 0: no bound. They sleep.
	BytesPerSecond, TotalBytesPerSecond int64
}

// Server is a web server with one object, at every path.
type Server struct {
	*httptest.Server
	behaviour Behaviour

	mu       sync.Mutex
	requests []string // method and Range of each
	answers  int
	sent     int64     // bytes of all bodies
	free     time.Time // when the next byte may be sent, by TotalBytesPerSecond
}

// Serve starts a server that ends with the test.
func Serve(t testing.TB, b Behaviour) *Server {
	s := &Server{behaviour: b}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeTLS starts a server that speaks TLS with a certificate that nobody trusts.
func ServeTLS(t testing.TB, b Behaviour) *Server {
	s := &Server{behaviour: b}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP2 is ServeTLS for a server that speaks HTTP/2, if asked.
func ServeHTTP2(t testing.TB, b Behaviour) *Server {
	s := &Server{behaviour: b}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// Sent is how many bytes of bodies the server has written.
func (s *Server) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// Requests is what was asked for, each as "METHOD range".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.Header.Get("Range"))
	n := s.answers
	s.answers++
	s.mu.Unlock()

	b := s.behaviour
	for name, values := range b.Header {
		w.Header()[name] = values
	}
	if b.Check != nil {
		if status := b.Check(r); status != 0 {
			s.say(w, status)
			return
		}
	}
	time.Sleep(b.Delay)
	if r.Method != http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if n < len(b.Status) && b.Status[n] != 0 {
		s.say(w, b.Status[n])
		return
	}
	s.answer(w, r, n)
}

// say answers a status.
func (s *Server) say(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	if s.behaviour.Said != "" {
		_, _ = io.WriteString(w, s.behaviour.Said) // the client may be gone
	}
}

// answer sends the object, or the range that was asked for, in answer n.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, n int) {
	b := s.behaviour
	version, content := 1, b.Content
	if b.ChangeAfter > 0 && n >= b.ChangeAfter {
		version, content = 2, bytes.Map(func(r rune) rune { return r ^ 1 }, b.Content)
		if len(content) != len(b.Content) {
			panic("content must be ASCII for ChangeAfter")
		}
	}
	out := &spoiler{ResponseWriter: w, request: r, server: s, stall: b.StallAfter}
	if b.Cuts == 0 || n < b.Cuts {
		out.cut = b.CutAfter
	}
	modified := time.Time{}
	switch {
	case b.NoValidator:
	case b.LastModified:
		modified = time.Unix(1_700_000_000+int64(version), 0)
	case b.JustModified:
		modified = time.Now()
	case b.WeakETag:
		w.Header().Set("ETag", fmt.Sprintf(`W/"%d"`, version))
	default:
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, version))
	}
	if b.NoDate {
		w.Header()["Date"] = nil
	}
	if b.NoRange {
		r.Header.Del("Range")
	}
	if b.WholeAs200 && r.Header.Get("Range") == "bytes=0-" {
		r.Header.Del("Range")
	}
	if b.MaxPart > 0 {
		shorten(r.Header, b.MaxPart)
	}
	if b.IgnoreIfRange {
		r.Header.Del("If-Range")
	}
	http.ServeContent(out, r, "disk.img", modified, bytes.NewReader(content))
}

// shorten makes a range request one for at most n bytes.
func shorten(h http.Header, n int64) {
	var first, last int64
	fields, err := fmt.Sscanf(h.Get("Range"), "bytes=%d-%d", &first, &last)
	switch {
	case fields == 0:
	case err != nil || last-first >= n:
		h.Set("Range", fmt.Sprintf("bytes=%d-%d", first, first+n-1))
	}
}

// spoiler spoils an answer's body.
type spoiler struct {
	http.ResponseWriter
	request    *http.Request
	server     *Server
	cut, stall int
	sent       int
	began      time.Time
}

func (s *spoiler) WriteHeader(status int) {
	b := s.server.behaviour
	if length, err := strconv.Atoi(s.Header().Get("Content-Length")); err == nil {
		s.Header().Set("Content-Length", strconv.Itoa(length+b.LengthOff))
	}
	if b.Chunked {
		s.Header().Del("Content-Length")
	}
	if b.NoRange && !b.ClaimRanges {
		s.Header().Set("Accept-Ranges", "none")
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *spoiler) Write(p []byte) (int, error) {
	for limit, spoil := range map[int]func(){s.cut: s.hangUp, s.stall: s.wait} {
		if limit > 0 && s.sent+len(p) > limit {
			n, err := s.write(p[:limit-s.sent])
			if err != nil {
				return n, err
			}
			spoil()
		}
	}
	return s.write(p)
}

const (
	// slice is how many bytes are sent at once where the rate is bound.
	slice = 64 << 10
	// burst is how much time that was lost is made up for, since no sleep ends on time.
	burst = 20 * time.Millisecond
)

// write writes p, at the rate that it may.
func (s *spoiler) write(p []byte) (done int, err error) {
	b := s.server.behaviour
	for done < len(p) && err == nil {
		part := p[done:]
		if b.BytesPerSecond > 0 || b.TotalBytesPerSecond > 0 {
			part = part[:min(len(part), slice)]
			time.Sleep(time.Until(s.due(len(part))))
		}
		var n int
		n, err = s.ResponseWriter.Write(part)
		done += n
		s.sent += n
		s.server.mu.Lock()
		s.server.sent += int64(n)
		s.server.mu.Unlock()
	}
	return done, err
}

// due is when the next n bytes may be sent.
func (s *spoiler) due(n int) time.Time {
	b, now := s.server.behaviour, time.Now()
	if s.began.IsZero() {
		s.began = now
	}
	s.flush()
	due := now
	if b.BytesPerSecond > 0 {
		due = s.began.Add(time.Duration(float64(s.sent+n) / float64(b.BytesPerSecond) * float64(time.Second)))
	}
	if b.TotalBytesPerSecond > 0 {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		if earliest := now.Add(-burst); s.server.free.Before(earliest) {
			s.server.free = earliest
		}
		s.server.free = s.server.free.Add(time.Duration(float64(n) / float64(b.TotalBytesPerSecond) * float64(time.Second)))
		if s.server.free.After(due) {
			due = s.server.free
		}
	}
	return due
}

func (s *spoiler) flush() {
	if f, ok := s.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

func (s *spoiler) hangUp() {
	s.flush()
	panic(http.ErrAbortHandler)
}

func (s *spoiler) wait() {
	s.flush()
	<-s.request.Context().Done()
	panic(http.ErrAbortHandler)
}
