package http_test

import (
	"bytes"
	"encoding/pem"
	"testing"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

func TestCertificates(t *testing.T) {
	server := sourcetest.ServeTLS(t, sourcetest.Behaviour{Content: content})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	other := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("none of ours")})
	bad := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("spoilt")})
	for name, o := range map[string]http.Options{
		"an authority of one's own":         {CAs: map[string][]byte{"ca.crt": ca}},
		"behind what is none, in the file":  {CAs: map[string][]byte{"bundle": bytes.Join([][]byte{[]byte("# a comment"), other, bad, ca}, []byte("\n"))}},
		"beside a file that is still empty": {CAs: map[string][]byte{"a.pem": nil, "ca": ca, "z": []byte("soon")}},
		"checks turned off":                 {InsecureSkipVerify: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.URL = server.URL
			if _, b, err := readAll(t.Context(), open(t, o)); err != nil || !bytes.Equal(b, content) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

func TestAnUnknownAuthorityIsToldBesideThoseThatWereTried(t *testing.T) {
	server := sourcetest.ServeTLS(t, sourcetest.Behaviour{Content: content})
	_, err := open(t, http.Options{URL: server.URL, CAs: map[string][]byte{"other.pem": []byte(otherAuthority)}}).Describe(t.Context())
	requireError(t, err, &source.Error{
		Reason: source.CertificateInvalid, Permanent: true,
		Message: "the certificate of $URL is signed by an unknown authority, \"O=Acme Co\" (trusted are the system's, 1 from other.pem): give that authority's certificate in certConfigMap",
	}, server.URL)
}

// otherAuthority is a certificate that signed nothing.
const otherAuthority = `-----BEGIN CERTIFICATE-----
MIIBdjCCAR2gAwIBAgIUFw11xbcO8DCl7vzZAeOrOw63jUYwCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTMwMjM0ODU5WhgPMjEyNjExMDYyMzQ4
NTlaMBAxDjAMBgNVBAMMBW90aGVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
gBLkJea6DwllknOwVc+HofamzHuLC+nZVmfiFEYFTfC+q5lQUuEwQg2Xj0zCH5vr
OMZzXUQRNM28Kf1VLAIEwKNTMFEwHQYDVR0OBBYEFBC+6Z1laC40EMolcfiib2U5
NjcUMB8GA1UdIwQYMBaAFBC+6Z1laC40EMolcfiib2U5NjcUMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgYdmxW36Fd3JFwlHB7s3E5XYG7LWDbEYu
d3cA5NTowhYCIBVz2sJOlYn3v7ffYrTrkqAwvghPhH0vnT/CqWy7jUZK
-----END CERTIFICATE-----
`
