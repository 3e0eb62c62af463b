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

// newTransports makes the transport for one request at a time, and the one for more of them at once, each of which has
// a connection of its own, which requests of HTTP/2 would share. Their errors say where they could not connect to.
func newTransports(o Options, config *tls.Config) (one, more *http.Transport) {
	dialer := &net.Dialer{Timeout: o.Timeouts.Connect}
	one = &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) { return o.Proxy(r.URL) },
		OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode != http.StatusOK {
				return &proxyError{proxy: proxy.Host, status: r.StatusCode}
			}
			return nil
		},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &dialError{address: address, err: err}
			}
			return conn, nil
		},
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    o.Timeouts.Handshake,
		ResponseHeaderTimeout:  o.Timeouts.Idle,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the bytes as served are what is hashed
		ReadBufferSize:         receiveBuffer,
		MaxIdleConnsPerHost:    2,
	}
	more = one.Clone()
	more.ForceAttemptHTTP2 = false
	more.Protocols = &http.Protocols{}
	more.Protocols.SetHTTP1(true)
	more.MaxIdleConnsPerHost = o.Connections
	return one, more
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
