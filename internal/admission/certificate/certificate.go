// Package certificate decides about and makes the certificates of the webhook server: an authority of vmdisk's own, and one certificate that
// the authority signs. The time and the randomness are passed in. It must not know where the bytes are kept, nor who serves them.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// How long the certificates hold (RFC 5280, 4.1.2.5), and how long before their end they are followed by new ones.
const (
	authorityLife  = 10 * 365 * 24 * time.Hour
	authorityEarly = 365 * 24 * time.Hour
	servingLife    = 90 * 24 * time.Hour
	servingEarly   = 30 * 24 * time.Hour
	// skew is how far the clocks of the API server and of ours may be apart: a certificate begins that much before it is made.
	skew = time.Hour
	// settle is how long a new authority is only trusted before it signs what is served. By then every API server trusts it.
	settle = time.Hour
)

// Held is what is kept: by one controller or by several, who must agree.
type Held struct {
	// Trust are the authorities that callers trust. The first one signs, the others were before it. Empty: nothing is held.
	Trust []*x509.Certificate
	// Authority is the first of them with its key, Serving what the server shows.
	Authority, Serving tls.Certificate
}

// Step is what has to be done about what is held.
type Step string

// The steps.
const (
	// Keep: nothing.
	Keep Step = "keep"
	// StartOver makes an authority and a certificate, and forgets what was there.
	StartOver Step = "start over"
	// NewAuthority makes an authority that is trusted beside the old one. What is served stays.
	NewAuthority Step = "new authority"
	// NewServing makes another certificate, signed by the authority.
	NewServing Step = "new certificate"
)

// Next is the first thing to do about what is held, for a server that is called by these names, and why.
func Next(h Held, hosts []string, now time.Time) (step Step, why string) {
	switch a := h.Authority.Leaf; {
	case len(h.Trust) == 0 || a == nil:
		return StartOver, "there is none yet"
	case !a.Equal(h.Trust[0]) || !a.IsCA:
		return StartOver, "the authority is not the one that is trusted"
	case !holds(a, now):
		return StartOver, "the authority has ended"
	case !now.Before(a.NotAfter.Add(-authorityEarly)):
		return NewAuthority, "the authority ends soon"
	}
	switch s := h.Serving.Leaf; {
	case s == nil:
		return NewServing, "there is no certificate"
	case !holds(s, now):
		return NewServing, "the certificate has ended"
	case !names(s, hosts):
		return NewServing, "the certificate is for other names"
	case !h.trusts(s):
		return NewServing, "the certificate is by an authority that nobody trusts"
	case now.Before(h.servingDue()):
		return Keep, ""
	case h.signed(s):
		return NewServing, "the certificate ends soon"
	default:
		return NewServing, "the certificate is by the authority before this one"
	}
}

// Due is when to look again: what is held needs nothing before.
func Due(h Held) time.Time {
	due := h.Authority.Leaf.NotAfter.Add(-authorityEarly)
	if at := h.servingDue(); at.Before(due) {
		return at
	}
	return due
}

// servingDue is when the certificate is followed by another one: if it is by the authority before this one, once this one is known
// everywhere, and not earlier.
func (h Held) servingDue() time.Time {
	if h.signed(h.Serving.Leaf) {
		return h.Serving.Leaf.NotAfter.Add(-servingEarly)
	}
	return h.Authority.Leaf.NotBefore.Add(skew + settle)
}

func (h Held) signed(c *x509.Certificate) bool { return c.CheckSignatureFrom(h.Authority.Leaf) == nil }

func (h Held) trusts(s *x509.Certificate) bool {
	for _, authority := range h.Trust {
		if s.CheckSignatureFrom(authority) == nil {
			return true
		}
	}
	return false
}

func holds(c *x509.Certificate, now time.Time) bool {
	return !now.Before(c.NotBefore) && now.Before(c.NotAfter)
}

func names(c *x509.Certificate, hosts []string) bool {
	for _, host := range hosts {
		if c.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}
