// Package http reads objects behind http and https URLs from the servers that exist: with and without range requests,
// HEAD, lengths, validators; behind redirects, proxies and certificate authorities of one's own.
//
// It never sends HEAD: the first answer to a GET tells all that there is to know, and is the first reader's.
package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	// Advice is what messages tell the reader to do; an empty field means its default.
	Advice Advice
	// Proxy chooses a proxy by the request's URL. The default reads HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper or
	// lower case.
	Proxy func(*url.URL) (*url.URL, error)
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
	pool, err := certPool(o.CAs)
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
	if o.User == "" && u.User != nil {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password() // without one it is empty
	}
	u.User = nil // else it would be sent wherever a redirect leads back to
	s := &httpSource{url: u, header: header, user: o.User, password: o.Password, timeouts: o.Timeouts, advice: o.Advice.withDefaults(), pause: o.Pause, head: o.Head}
	s.client = newClient(o, &tls.Config{RootCAs: pool, InsecureSkipVerify: o.InsecureSkipVerify}) // the user asks for it
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

// certPool is the system's authorities and those of the bundles.
func certPool(bundles map[string][]byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("load the system's certificate authorities: %w", err)
	}
	for name, pem := range bundles {
		if !pool.AppendCertsFromPEM(pem) {
			return nil, &source.Error{Reason: source.InvalidCA, Permanent: true, Message: fmt.Sprintf("%q holds no certificate in PEM form", name)}
		}
	}
	return pool, nil
}
