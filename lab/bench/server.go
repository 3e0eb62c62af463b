package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// network is what lies between the server and its clients. The zero network is the loopback device as it is.
type network struct {
	latency        time.Duration // before each answer
	bytesPerSecond int64         // of all connections together; 0: no limit
}

// server serves the files of a directory on the loopback device, with Range and a validator.
type server struct {
	url  string
	dir  string
	http http.Server
	line line

	served atomic.Int64 // bytes of bodies

	// answering is held for reading while a request is answered, so that who holds it for writing sees them all counted.
	answering sync.RWMutex
	network   network
}

// serve starts a server. The caller must close it.
func serve(dir string) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen on the loopback device: %w", err)
	}
	s := &server{dir: dir, url: "http://" + listener.Addr().String()}
	s.http.Handler = s
	go func() { _ = s.http.Serve(listener) }() // it ends with Close, and its error says just that
	return s, nil
}

func (s *server) close() error { return s.http.Close() }

// set changes the network for the requests to come, and returns what was served until now.
func (s *server) set(n network) int64 {
	s.answering.Lock()
	defer s.answering.Unlock()
	s.network = n
	return s.served.Load()
}

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.answering.RLock()
	defer s.answering.RUnlock()
	n := s.network
	if err := wait(r.Context(), n.latency); err != nil {
		return // the client has gone
	}
	name := filepath.Join(s.dir, filepath.Base(r.URL.Path))
	f, err := os.Open(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, info.Size(), info.ModTime().UnixNano()))
	counted := &counted{ResponseWriter: w, server: s}
	if n.bytesPerSecond == 0 {
		http.ServeContent(counted, r, "", info.ModTime(), f)
		return
	}
	http.ServeContent(&paced{counted, r.Context(), n.bytesPerSecond}, r, "", info.ModTime(), f)
}

// counted counts the body and leaves the sending to the kernel, as a good server does.
type counted struct {
	http.ResponseWriter
	server *server
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.server.served.Add(int64(n))
	return n, err
}

// ReadFrom implements io.ReaderFrom, by which net/http finds sendfile(2).
func (c *counted) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(c.ResponseWriter, r)
	c.server.served.Add(n)
	return n, err
}

// paced sends no faster than the line is. It embeds no io.ReaderFrom, so that everything comes through Write.
type paced struct {
	counted        *counted
	ctx            context.Context // the request's; a ResponseWriter has no other way to learn it
	bytesPerSecond int64
}

func (p *paced) Header() http.Header    { return p.counted.Header() }
func (p *paced) WriteHeader(status int) { p.counted.WriteHeader(status) }

func (p *paced) Write(body []byte) (int, error) {
	const slice = 64 << 10
	written := 0
	for written < len(body) {
		part := body[written:min(len(body), written+slice)]
		due := p.counted.server.line.reserve(time.Now(), int64(len(part)), p.bytesPerSecond)
		if err := wait(p.ctx, time.Until(due)); err != nil {
			return written, err
		}
		n, err := p.counted.Write(part)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// line is a line that all connections share.
type line struct {
	mu   sync.Mutex
	free time.Time // when all that was reserved has passed
}

// slack is how much a line may catch up after it lay idle: timers are late, and a real line has buffers, too.
const slack = 10 * time.Millisecond

// reserve takes the line for so many bytes and says when they have passed it.
func (l *line) reserve(now time.Time, bytes, bytesPerSecond int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if earliest := now.Add(-slack); l.free.Before(earliest) {
		l.free = earliest
	}
	l.free = l.free.Add(time.Duration(bytes) * time.Second / time.Duration(bytesPerSecond))
	return l.free
}

// wait waits for so long, or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("the client has gone"), ctx.Err())
	}
}
