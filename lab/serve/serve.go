// Package serve is an HTTP server for tests and the demo that serves the files of one directory well, or misbehaves on
// request. How it behaves is part of the URL's path, and behaviours can be put in a row:
//
//	/disk.qcow2                       Range, HEAD, ETag, Content-Length: a good server
//	/norange/disk.qcow2               no Range, no Accept-Ranges; HEAD is answered 405
//	/nolength/disk.qcow2              chunked, no Content-Length, no Range
//	/status/503/x?retry-after=7       that status, with that Retry-After
//	/auth/disk.qcow2                  401 without the basic authentication of Options
//	/header/disk.qcow2                403 without the header of Options
//	/redirect/8443/disk.qcow2         302 to the rest of the path on another port; "http:8080" changes the scheme too
//	/slow/1000000/disk.qcow2          at most that many bytes a second
//	/cut/4096/disk.qcow2              the connection is closed after that many bytes of the body, each time
//	/stall/4096/disk.qcow2            nothing more comes after that many bytes; the connection stays open
//	/html/disk.qcow2                  200 and an HTML page
//	/flaky/3/disk.qcow2               503 for the first 3 requests of this very path
//	/corrupt/100/disk.qcow2           the byte at that offset has all its bits flipped
//	/switch/NAME/disk.qcow2           404 until POST /switch/NAME/on, and again after POST /switch/NAME/off
//	/slow/1000/norange/disk.qcow2     both
//
// GET /stats answers what was asked and sent (see Stats), POST /reset forgets it and all switches, and GET /ca.pem is
// the certificate authority to trust. A file whose first directory has the name of a behaviour can't be served.
//
// It must not know Kubernetes, nor vmdisk.
package serve

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options say what a server serves and what it asks for.
type Options struct {
	// Dir holds the files. Symbolic links that lead out of it are not followed.
	Dir string
	// User and Password are what /auth/ wants.
	User, Password string
	// HeaderName and HeaderValue are what /header/ wants.
	HeaderName, HeaderValue string
	// AuthorityPEM is answered at /ca.pem.
	AuthorityPEM []byte
}

// Server is the handler. Make it with New and give it to any number of listeners.
type Server struct {
	options Options
	root    *os.Root

	mu       sync.Mutex
	stats    map[string]*Stat
	switches map[string]bool
}

// New opens the directory. Close the server when no request runs any more.
func New(options Options) (*Server, error) {
	root, err := os.OpenRoot(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("serve a directory: %w", err)
	}
	return &Server{options: options, root: root, stats: map[string]*Stat{}, switches: map[string]bool{}}, nil
}

// Close closes the directory.
func (s *Server) Close() error { return s.root.Close() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/stats":
		s.writeStats(w)
		return
	case r.URL.Path == "/ca.pem" && len(s.options.AuthorityPEM) > 0:
		w.Header().Set("Content-Type", "application/x-pem-file")
		send(w, s.options.AuthorityPEM)
		return
	case r.Method == http.MethodPost:
		s.control(w, r)
		return
	}
	plan, err := parse(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	number := s.countRequest(r, plan)
	shaped := &shaper{ResponseWriter: w, request: r, plan: plan, began: time.Now(), counter: s.counter(r.URL.Path)}
	if s.refuse(shaped, r, plan, number) {
		return
	}
	s.serveFile(shaped, r, plan)
}

// control answers a POST: switches and the reset.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/reset":
		s.stats, s.switches = map[string]*Stat{}, map[string]bool{}
	case len(parts) == 3 && parts[0] == "switch" && (parts[2] == "on" || parts[2] == "off"):
		s.switches[parts[1]] = parts[2] == "on"
	default:
		http.Error(w, "only /reset, /switch/NAME/on and /switch/NAME/off take a POST", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers the request if no file is to be served, and reports whether it did.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, p plan, number int) bool {
	switch {
	case p.status != 0:
		if after := r.URL.Query().Get("retry-after"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		http.Error(w, http.StatusText(p.status), p.status)
	case p.flaky > 0 && number <= p.flaky:
		http.Error(w, fmt.Sprintf("request %d of %d that fail", number, p.flaky), http.StatusServiceUnavailable)
	case p.auth && !s.authenticated(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
		http.Error(w, "user and password are needed", http.StatusUnauthorized)
	case p.header && r.Header.Get(s.options.HeaderName) != s.options.HeaderValue:
		http.Error(w, "header "+s.options.HeaderName+" is needed", http.StatusForbidden)
	case p.gate != "" && !s.isOn(p.gate):
		http.Error(w, "switch "+p.gate+" is off", http.StatusNotFound)
	case p.redirect != "":
		http.Redirect(w, r, redirection(r, p), http.StatusFound)
	case p.noRange && r.Method == http.MethodHead:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "HEAD is not served", http.StatusMethodNotAllowed)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, r.Method+" is not served", http.StatusMethodNotAllowed)
	case p.html:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	default:
		return false
	}
	return true
}

// page is what a portal or a mirror's error page looks like.
const page = `<!DOCTYPE html>
<html><head><title>Welcome</title></head>
<body><h1>Please sign in</h1><p>This is not a disk image.</p></body></html>
`

func (s *Server) authenticated(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && user == s.options.User && password == s.options.Password
}

func (s *Server) isOn(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.switches[name]
}

// redirection is the URL of the rest of the path on the port that the plan names, with the host that the client used.
func redirection(r *http.Request, p plan) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if named, port, ok := strings.Cut(p.redirect, ":"); ok {
		scheme, p.redirect = named, port
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	target := *r.URL
	target.Scheme, target.Host, target.Path, target.RawPath = scheme, net.JoinHostPort(strings.Trim(host, "[]"), p.redirect), "/"+p.rest, ""
	return target.String()
}

// serveFile sends the file, well or as the plan says.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, p plan) {
	f, err := s.root.Open(p.rest)
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
	content := &corrupted{File: f, at: p.corruptAt}
	w.Header().Set("Content-Type", "application/octet-stream")
	if !p.noRange && !p.noLength {
		w.Header().Set("ETag", fmt.Sprintf(`"%x-%x"`, info.Size(), info.ModTime().UnixNano()))
		http.ServeContent(w, r, info.Name(), info.ModTime(), content)
		return
	}
	w.Header().Set("Last-Modified", info.ModTime().UTC().Format(http.TimeFormat))
	if !p.noLength {
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		copyAll(w, content, p.noLength)
	}
}
