package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

// classify turns a request's or body's error into a *source.Error. from is the URL in messages.
func classify(err error, from string, advice Advice) *source.Error {
	var e *source.Error
	if errors.As(err, &e) {
		return e
	}
	if e := classifyDial(err); e != nil {
		return e
	}
	if e := classifyTLS(err, from, advice); e != nil {
		return e
	}
	var redirect *redirectError
	var timeout net.Error
	switch {
	case errors.As(err, &redirect):
		return &source.Error{Reason: source.TooManyRedirects, Permanent: true, Err: err, Message: fmt.Sprintf("more than %d redirects from %s, the last to %s", maxRedirects, redact(redirect.first), redact(redirect.last))}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &source.Error{Reason: source.Timeout, Err: err, Message: fmt.Sprintf("timed out waiting for an answer from %s", from)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return &source.Error{Reason: source.ConnectionReset, Err: errors.New(err.Error()), Message: fmt.Sprintf("the connection broke while reading from %s", from)}
	default:
		return &source.Error{Reason: source.BadAnswer, Err: err, Message: fmt.Sprintf("no usable answer from %s: %v", from, inner(err))}
	}
}

// inner is the error inside a *url.Error, whose own text has the whole URL.
func inner(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// classifyDial knows the errors of getting a connection, or answers nil.
func classifyDial(err error) *source.Error {
	var dial *dialError
	if !errors.As(err, &dial) {
		return nil
	}
	host, _, splitErr := net.SplitHostPort(dial.address)
	if splitErr != nil {
		host = dial.address
	}
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return &source.Error{Reason: source.NoSuchHost, Err: err, Message: fmt.Sprintf("no such host %q", host)}
	case errors.As(err, &dns) && dns.IsTimeout:
		return &source.Error{Reason: source.Timeout, Err: err, Message: fmt.Sprintf("timed out looking up host %q; a firewall or NetworkPolicy may be blocking DNS", host)}
	case errors.As(err, &dns):
		return &source.Error{Reason: source.NoSuchHost, Err: err, Message: fmt.Sprintf("host %q can't be looked up: %s", host, dns.Err)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &source.Error{Reason: source.ConnectionRefused, Err: err, Message: fmt.Sprintf("connection refused by %s; nothing listens there, or a firewall or NetworkPolicy rejects it", dial.address)}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &source.Error{Reason: source.Unreachable, Err: err, Message: fmt.Sprintf("there is no route to %s", dial.address)}
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return &source.Error{Reason: source.Unreachable, Err: err, Message: fmt.Sprintf("this machine's firewall forbids connecting to %s", dial.address)}
	case errors.As(dial.err, &timeout) && timeout.Timeout():
		return &source.Error{Reason: source.Timeout, Err: err, Message: fmt.Sprintf("timed out connecting to %s; a firewall or NetworkPolicy may be blocking it", dial.address)}
	default:
		return &source.Error{Reason: source.Unreachable, Err: err, Message: fmt.Sprintf("can't connect to %s: %v", dial.address, dial.err)}
	}
}

// classifyTLS knows the errors of a TLS handshake, or answers nil.
func classifyTLS(err error, from string, advice Advice) *source.Error {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
		alert        tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s is signed by an unknown authority: %s", from, advice.Authority)}
	case errors.As(err, &hostname):
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s is for another host: %v", from, hostname)}
	case errors.As(err, &invalid):
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s is not valid: %v", from, invalid)}
	case errors.As(err, &verification):
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s can't be verified: %v", from, verification.Err)}
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return &source.Error{Reason: source.TLSFailed, Permanent: true, Err: err, Message: fmt.Sprintf("%s doesn't answer with TLS: the server there may speak plain http", from)}
	case errors.As(err, &alert):
		return &source.Error{Reason: source.TLSFailed, Err: err, Message: fmt.Sprintf("%s refused the TLS handshake: %v", from, alert)}
	default:
		return nil
	}
}

// classifyStatus is the error of an answer with another status than the one asked for.
func classifyStatus(r *http.Response, advice Advice) *source.Error {
	from := redact(r.Request.URL)
	e := &source.Error{
		Message:    fmt.Sprintf("%s from %s", statusText(r), from),
		RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now()),
	}
	switch code := r.StatusCode; {
	case code == http.StatusNotFound:
		e.Reason, e.Permanent = source.NotFound, true
	case code == http.StatusGone:
		e.Reason, e.Permanent = source.Gone, true
	case code == http.StatusUnauthorized:
		e.Reason, e.Permanent = source.Unauthorized, true
		e.Message += ": the server wants a user and password; " + advice.Credentials
	case code == http.StatusForbidden:
		e.Reason, e.Permanent = source.Forbidden, true
	case code == http.StatusProxyAuthRequired:
		e.Reason, e.Permanent = source.ProxyRefused, true
	case code == http.StatusRequestTimeout:
		e.Reason = source.Timeout
	case code == http.StatusTooManyRequests:
		e.Reason = source.TooManyRequests
	case code >= 500:
		e.Reason = source.ServerError
	default:
		e.Reason, e.Permanent = source.UnexpectedStatus, true
	}
	return e
}

// statusText is "404 Not Found", by the standard's words and not the server's.
func statusText(r *http.Response) string {
	if text := http.StatusText(r.StatusCode); text != "" {
		return fmt.Sprintf("%d %s", r.StatusCode, text)
	}
	return fmt.Sprintf("status %d", r.StatusCode)
}

// maxRetryAfter bounds what a server can ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header: seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if t, err := http.ParseTime(value); err == nil && t.After(now) {
		return min(t.Sub(now), maxRetryAfter)
	}
	return 0
}
