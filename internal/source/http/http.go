// Package http reads objects behind http and https URLs from the servers that exist: with and without range requests,
// HEAD, lengths, validators; behind redirects, proxies and certificate authorities of one's own.
//
// It never sends HEAD: the first answer to a GET tells all that there is to know, and is the first reader's. Redirects
// are followed once; what they led to is asked from then on, until it fails.
//
// Where the server has ranges and names the object's version, a broken connection is continued, and an object that is
// read to its end is read over several connections, as far as more of them bring more (see pace). Elsewhere there is
// one stream, and when that breaks, the whole attempt has failed.
//
// The object is its bytes as they are served, as a plain curl would store them, and a checksum is over these. A
// Content-Encoding that is also a file's wrapper (gzip, zstd) is therefore left to whoever detects the format; one that
// couldn't be detected is refused.
package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http/httpproxy"

	"vmdisk.io/vmdisk/internal/source"
)

// Options say what to read and how. Only URL is required.
type Options struct {
	// URL is an http or https URL. It may hold a user and a password, as a fallback for User and Password.
	URL string
	// User and Password are sent as basic authentication (RFC 7617), to the URL's own origin only.
	User, Password string
	// Headers are extra header lines, "Name: value", sent to the URL's own origin only.
	Headers []string
	// CAs are PEM bundles of certificate authorities, by a name for messages, which are trusted besides the system's.
	CAs map[string][]byte
	// InsecureSkipVerify turns certificate checks off.
	InsecureSkipVerify bool
	// Timeouts bound the waiting; a zero field means its default.
	Timeouts Timeouts
	// Head is how many bytes the first request asks for; 0: all of them. Where only a part of a large object will be
	// read, a small Head keeps the server from sending what nobody takes.
	Head int64
	// Connections is how many are used at once at most, to read one object to its end; default 4.
	Connections int
	// WindowBytes bounds the memory that they may read ahead into; default 16 MiB. One connection needs none.
	WindowBytes int64
	// Advice is what messages tell the reader to do; an empty field means its default.
	Advice Advice
	// Proxy chooses a proxy by the request's URL. The default reads HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or
	// lower case.
	Proxy func(*url.URL) (*url.URL, error)
	// Reach bounds which addresses are connected to; nil: all are.
	Reach *Reach
	// Pause waits between two tries to mend a connection, or until ctx is done. The default waits for that long.
	Pause func(ctx context.Context, d time.Duration) error
}

// Timeouts bound the waiting for a server.
type Timeouts struct {
	// Connect is for looking up the host and for the TCP connection; default 15 s.
	Connect time.Duration
	// Handshake is for TLS; default 15 s.
	Handshake time.Duration
	// Idle is for the answer's beginning, and then for each next byte; default 60 s.
	Idle time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	if t.Connect <= 0 {
		t.Connect = 15 * time.Second
	}
	if t.Handshake <= 0 {
		t.Handshake = 15 * time.Second
	}
	if t.Idle <= 0 {
		t.Idle = 60 * time.Second
	}
	return t
}

// Advice says where a person gives what a server wants. The defaults speak of a DataVolume's fields.
type Advice struct {
	// Authority is for a certificate by an unknown authority.
	Authority string
	// Credentials is for a server that wants a user and a password.
	Credentials string
}

func (a Advice) withDefaults() Advice {
	if a.Authority == "" {
		a.Authority = "give that authority's certificate in certConfigMap"
	}
	if a.Credentials == "" {
		a.Credentials = "check the Secret that secretRef names"
	}
	return a
}

const (
	defaultConnections = 4
	defaultWindowBytes = 16 << 20
)

// New checks the options and makes a source. Nothing is sent yet.
func New(o Options) (source.Source, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	header, err := parseHeaders(o.Headers)
	if err != nil {
		return nil, err
	}
	trusted, err := newAuthorities(o.CAs)
	if err != nil {
		return nil, err
	}
	o.Timeouts = o.Timeouts.withDefaults()
	if o.Pause == nil {
		o.Pause = pause
	}
	if o.Proxy == nil {
		o.Proxy = httpproxy.FromEnvironment().ProxyFunc()
	}
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	if o.WindowBytes <= 0 {
		o.WindowBytes = defaultWindowBytes
	}
	if o.User == "" && u.User != nil {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password() // without one it is empty
	}
	u.User = nil // else it would be sent wherever a redirect leads back to
	s := &httpSource{
		url: u, header: header, user: strings.TrimSpace(o.User), password: strings.TrimSpace(o.Password),
		timeouts: o.Timeouts, texts: texts{advice: o.Advice.withDefaults(), trusted: trusted},
		pause: o.Pause, now: time.Now, head: o.Head, windowBytes: o.WindowBytes, pace: newPace(o.Connections),
	}
	s.client, s.more = newTransports(o, &tls.Config{RootCAs: trusted.pool, InsecureSkipVerify: o.InsecureSkipVerify}) // the user asks for it
	return s, nil
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, &source.Error{Reason: source.InvalidURL, Permanent: true, Err: err, Message: "the URL can't be read: check it for spaces and characters that must be escaped"}
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, &source.Error{Reason: source.InvalidURL, Permanent: true, Message: fmt.Sprintf("%q is not an http or https URL", redact(u))}
	}
	return u, nil
}

// redact is a URL for messages: without user, query and fragment, which may hold secrets.
func redact(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// parseHeaders reads header lines. Messages name a header and never its value, which may be a secret.
func parseHeaders(lines []string) (http.Header, error) {
	h := http.Header{}
	for i, line := range lines {
		name, value, found := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) {
			return nil, &source.Error{Reason: source.InvalidHeader, Permanent: true, Message: fmt.Sprintf("extra header %d is not of the form \"Name: value\"", i+1)}
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, &source.Error{Reason: source.InvalidHeader, Permanent: true, Message: fmt.Sprintf("extra header %q has a value with characters that no header can have, such as a line break", name)}
		}
		h.Add(name, value)
	}
	return h, nil
}
