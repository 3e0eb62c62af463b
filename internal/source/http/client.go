package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

const (
	// receiveBuffer is the size in bytes of the reads that an answer's body is taken with.
	receiveBuffer = 256 << 10
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 256 << 10
)

// newTransports makes the transport for one request at a time, and the one for more of them beside it, each of which has
// a connection of its own, which requests of HTTP/2 would share.
func newTransports(o Options, config *tls.Config) (one, more *http.Transport) {
	var g *guard
	if o.Reach != nil {
		g = newGuard(*o.Reach, o.Timeouts.Connect)
		o.Proxy = g.proxy(o.Proxy)
	}
	one, more = newTransport(o, g, config.Clone()), newTransport(o, g, config.Clone())
	one.Protocols.SetHTTP2(true)
	more.MaxIdleConnsPerHost = o.Connections
	return one, more
}

// newTransport makes a transport that says in its errors where it could not connect to.
func newTransport(o Options, g *guard, config *tls.Config) *http.Transport {
	dial := (&net.Dialer{Timeout: o.Timeouts.Connect}).DialContext
	if g != nil {
		dial = g.dial(dial)
	}
	t := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return o.Proxy(r.URL) },
		OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode != http.StatusOK {
				return &proxyError{proxy: proxy.Host, status: r.StatusCode}
			}
			return nil
		},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, &dialError{address: address, err: err}
			}
			return conn, nil
		},
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    o.Timeouts.Handshake,
		ResponseHeaderTimeout:  o.Timeouts.Idle,
		MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols:              &http.Protocols{},
		DisableCompression:     true, // the bytes as served are what is hashed
		ReadBufferSize:         receiveBuffer,
		MaxIdleConnsPerHost:    2,
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// dialError says which address could not be connected to.
type dialError struct {
	address string
	err     error
}

func (e *dialError) Error() string { return fmt.Sprintf("connect to %s: %v", e.address, e.err) }
func (e *dialError) Unwrap() error { return e.err }

// proxyError says that a proxy doesn't connect us.
type proxyError struct {
	proxy  string // its host and port
	status int
}

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy %s answered %s", e.proxy, statusText(e.status))
}
