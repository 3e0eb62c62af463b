package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"time"
)

// Do is what is held after a step. Random is a source of randomness for keys.
func Do(step Step, h Held, hosts []string, now time.Time, random io.Reader) (Held, error) {
	var err error
	switch step {
	case StartOver, NewAuthority:
		before := h
		if h.Authority, err = newAuthority(now, random); err != nil {
			return Held{}, fmt.Errorf("make the webhooks' authority: %w", err)
		}
		h.Trust = []*x509.Certificate{h.Authority.Leaf}
		if step == NewAuthority {
			for _, old := range before.Trust {
				if holds(old, now) {
					h.Trust = append(h.Trust, old)
				}
			}
			return h, nil
		}
		return Do(NewServing, h, hosts, now, random)
	case NewServing:
		if h.Serving, err = newServing(h.Authority, hosts, now, random); err != nil {
			return Held{}, fmt.Errorf("make the webhooks' certificate: %w", err)
		}
	}
	return h, nil
}

func newAuthority(now time.Time, random io.Reader) (tls.Certificate, error) {
	return sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "vmdisk webhooks' authority"},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}, nil, random)
}

func newServing(authority tls.Certificate, hosts []string, now time.Time, random io.Reader) (tls.Certificate, error) {
	end := now.Add(servingLife)
	if authority.Leaf.NotAfter.Before(end) {
		end = authority.Leaf.NotAfter
	}
	return sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "vmdisk webhooks"},
		DNSNames:              hosts,
		NotBefore:             now.Add(-skew),
		NotAfter:              end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}, &authority, random)
}

// sign makes a key and a certificate for it; by itself where there is no authority.
func sign(template *x509.Certificate, authority *tls.Certificate, random io.Reader) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), random)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	serial := make([]byte, 16) // RFC 5280, 4.1.2.2: at most 20 bytes, and positive
	if _, err := io.ReadFull(random, serial); err != nil {
		return tls.Certificate{}, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = new(big.Int).SetBytes(append([]byte{1}, serial...))
	parent, signer := template, any(key)
	if authority != nil {
		parent, signer = authority.Leaf, authority.PrivateKey
	}
	der, err := x509.CreateCertificate(random, template, parent, &key.PublicKey, signer)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read what was signed: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
