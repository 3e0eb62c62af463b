package sourcetest

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	// NoValidator sends neither ETag nor Last-Modified.
	NoValidator bool
	// LastModified sends that in place of an ETag.
	LastModified bool
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
	// Header is added to each answer.
	Header http.Header
	// Check is called with each request; where it answers a status, that is the answer.
	Check func(r *http.Request) int
}

// Server is a web server with one object, at every path.
type Server struct {
	*httptest.Server
	behaviour Behaviour

	mu       sync.Mutex
	requests []string // method and Range of each
	answers  int
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
			w.WriteHeader(status)
			return
		}
	}
	if r.Method != http.MethodGet {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if n < len(b.Status) && b.Status[n] != 0 {
		w.WriteHeader(b.Status[n])
		return
	}
	s.answer(w, r, n)
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
	out := &spoiler{ResponseWriter: w, request: r, chunked: b.Chunked, stall: b.StallAfter}
	if b.Cuts == 0 || n < b.Cuts {
		out.cut = b.CutAfter
	}
	modified := time.Time{}
	switch {
	case b.NoValidator:
	case b.LastModified:
		modified = time.Unix(1_700_000_000+int64(version), 0)
	default:
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, version))
	}
	if b.NoRange {
		r.Header.Del("Range")
		w.Header().Set("Accept-Ranges", "none")
	}
	if b.IgnoreIfRange {
		r.Header.Del("If-Range")
	}
	http.ServeContent(out, r, "disk.img", modified, bytes.NewReader(content))
}

// spoiler spoils an answer's body.
type spoiler struct {
	http.ResponseWriter
	request    *http.Request
	chunked    bool
	cut, stall int
	sent       int
}

func (s *spoiler) WriteHeader(status int) {
	if s.chunked {
		s.Header().Del("Content-Length")
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *spoiler) Write(p []byte) (int, error) {
	for limit, spoil := range map[int]func(){s.cut: s.hangUp, s.stall: s.wait} {
		if limit > 0 && s.sent+len(p) > limit {
			n, err := s.ResponseWriter.Write(p[:limit-s.sent])
			s.sent += n
			if err != nil {
				return n, err
			}
			spoil()
		}
	}
	n, err := s.ResponseWriter.Write(p)
	s.sent += n
	return n, err
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
