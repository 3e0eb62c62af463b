package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// maxRedirects is how many redirects are followed for one request.
const maxRedirects = 10

// receiveBuffer is the size in bytes of the reads that an answer's body is taken with.
const receiveBuffer = 256 << 10

// newClient makes a client that keeps what is secret to the first URL's origin, and that says in its errors where it
// could not connect to.
func newClient(o Options, config *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: o.Timeouts.Connect}
	transport := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return o.Proxy(r.URL) },
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &dialError{address: address, err: err}
			}
			return conn, nil
		},
		TLSClientConfig:       config,
		TLSHandshakeTimeout:   o.Timeouts.Handshake,
		ResponseHeaderTimeout: o.Timeouts.Idle,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // the bytes as served are what is hashed
		ReadBufferSize:        receiveBuffer,
		MaxIdleConnsPerHost:   2,
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}
}

// dialError says which address could not be connected to.
type dialError struct {
	address string
	err     error
}

func (e *dialError) Error() string { return fmt.Sprintf("connect to %s: %v", e.address, e.err) }
func (e *dialError) Unwrap() error { return e.err }

// redirectError ends a chain of redirects.
type redirectError struct{ first, last *url.URL }

func (e *redirectError) Error() string { return fmt.Sprintf("more than %d redirects", maxRedirects) }

// checkRedirect bounds the redirects, and strips what is meant for the first origin from a request to another one. Once
// a chain has left the origin, nothing secret is sent any more, not even when it comes back: it was not the user who
// chose that URL.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return &redirectError{first: via[0].URL, last: r.URL}
	}
	for _, earlier := range append(via[1:len(via):len(via)], r) {
		if !sameOrigin(via[0].URL, earlier.URL) {
			keep := http.Header{}
			for _, name := range []string{"Range", "If-Range", "Accept-Encoding", "User-Agent"} {
				if v := r.Header.Values(name); len(v) > 0 {
					keep[name] = v
				}
			}
			r.Header = keep
			return nil
		}
	}
	return nil
}

// sameOrigin reports whether b may be told what is meant for a: the same host and port, or the https side of the same
// host where both have their default ports.
func sameOrigin(a, b *url.URL) bool {
	if !strings.EqualFold(a.Hostname(), b.Hostname()) {
		return false
	}
	if a.Scheme == b.Scheme {
		return port(a) == port(b)
	}
	return a.Scheme == "http" && b.Scheme == "https" && port(a) == "80" && port(b) == "443"
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
