package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"vmdisk.io/vmdisk/internal/source"
)

// forbidden says whether an error is that an address is out of reach.
func forbidden(err error) bool {
	var e *source.Error
	return errors.As(err, &e) && e.Reason == source.AddressForbidden
}

// texts are the parts of messages that depend on who reads them, and on what was given.
type texts struct {
	advice  Advice
	trusted authorities
}

// classify turns a request's or body's error into a *source.Error. from is the URL in messages.
func (t texts) classify(err error, from string) *source.Error {
	var e *source.Error
	if errors.As(err, &e) {
		return e
	}
	if e := classifyProxy(err); e != nil {
		return e
	}
	if e := classifyDial(err); e != nil {
		return e
	}
	if e := t.classifyTLS(err, from); e != nil {
		return e
	}
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return &source.Error{Reason: source.Timeout, Err: err, Message: fmt.Sprintf("timed out waiting for an answer from %s", from)}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return &source.Error{Reason: source.ConnectionReset, Err: errors.New(err.Error()), Message: fmt.Sprintf("the connection broke while reading from %s", from)}
	default:
		return &source.Error{Reason: source.BadAnswer, Err: err, Message: fmt.Sprintf("no usable answer from %s: %s", from, readable(err.Error(), nil))}
	}
}

// classifyProxy knows the errors of a proxy that doesn't connect us, or answers nil.
func classifyProxy(err error) *source.Error {
	var refused *proxyError
	var way *net.OpError
	switch {
	case errors.As(err, &refused):
		e := &source.Error{Reason: source.ProxyRefused, Err: err, Message: refused.Error() + " instead of connecting; check the proxy's address, user and password, and whether it allows the host"}
		e.Permanent = refused.status >= 400 && refused.status < 500 && refused.status != http.StatusTooManyRequests && refused.status != http.StatusRequestTimeout
		return e
	case errors.As(err, &way) && way.Op == "proxyconnect":
		e := classifyDial(way.Err)
		if e == nil {
			e = &source.Error{Reason: source.Unreachable, Err: err, Message: way.Err.Error()}
		}
		e.Message = "the proxy can't be reached: " + e.Message
		return e
	default:
		return nil
	}
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
func (t texts) classifyTLS(err error, from string) *source.Error {
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
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s is signed by an unknown authority, %s (trusted are %s): %s", from, issuer(err), t.trusted, t.advice.Authority)}
	case errors.As(err, &hostname):
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s is for another host: %s", from, readable(hostname.Error(), nil))}
	case errors.As(err, &invalid):
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s is not valid: %s", from, readable(invalid.Error(), nil))}
	case errors.As(err, &verification):
		return &source.Error{Reason: source.CertificateInvalid, Permanent: true, Err: err, Message: fmt.Sprintf("the certificate of %s can't be verified: %s", from, readable(verification.Err.Error(), nil))}
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return &source.Error{Reason: source.TLSFailed, Permanent: true, Err: err, Message: fmt.Sprintf("%s doesn't answer with TLS: the server there may speak plain http", from)}
	case errors.As(err, &alert):
		return &source.Error{Reason: source.TLSFailed, Err: err, Message: fmt.Sprintf("%s refused the TLS handshake: %v", from, alert)}
	default:
		return nil
	}
}

// issuer says who signed the certificate that a server has shown.
func issuer(err error) string {
	var verification *tls.CertificateVerificationError
	if !errors.As(err, &verification) || len(verification.UnverifiedCertificates) == 0 {
		return "which it doesn't name"
	}
	chain := verification.UnverifiedCertificates
	return fmt.Sprintf("%q", readable(chain[len(chain)-1].Issuer.String(), nil))
}
