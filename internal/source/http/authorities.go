package http

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vmdisk.io/vmdisk/internal/source"
)

// authorities are the certificate authorities that are trusted, and what messages call them.
type authorities struct {
	pool  *x509.CertPool
	added []string // those besides the system's, such as "2 from ca.crt"
}

// newAuthorities trusts the system's authorities and every certificate in the bundles, which are PEM files by their
// names. A bundle may hold other things as well, or, beside others, nothing: a ConfigMap's key may wait to be filled.
func newAuthorities(bundles map[string][]byte) (authorities, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return authorities{}, fmt.Errorf("load the system's certificate authorities: %w", err)
	}
	a := authorities{pool: pool}
	names := slices.Sorted(maps.Keys(bundles))
	for _, name := range names {
		certificates := parseCertificates(bundles[name])
		for _, c := range certificates {
			pool.AddCert(c)
		}
		if len(certificates) > 0 {
			a.added = append(a.added, fmt.Sprintf("%d from %s", len(certificates), name))
		}
	}
	switch {
	case len(bundles) == 0 || len(a.added) > 0:
		return a, nil
	case len(bundles) == 1:
		return a, &source.Error{Reason: source.InvalidCA, Permanent: true, Message: fmt.Sprintf("%q holds no certificate in PEM form", names[0])}
	default:
		return a, &source.Error{Reason: source.InvalidCA, Permanent: true, Message: fmt.Sprintf("none of %q holds a certificate in PEM form", names)}
	}
}

// parseCertificates answers the certificates of a PEM file (RFC 7468). A block that is none, or one that can't be read,
// which is common in old bundles of many, is left out.
func parseCertificates(bundle []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return found
		}
		bundle = rest
		if block.Type != "CERTIFICATE" && block.Type != "X509 CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, c)
		}
	}
}

// String says which authorities were tried.
func (a authorities) String() string {
	return strings.Join(append([]string{"the system's"}, a.added...), ", ")
}
