package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// The keys of what is kept, in PEM. The first, second and third are those of other tools' Secrets, too.
const (
	trustKey     = "ca.crt"
	servingCert  = "tls.crt"
	servingKey   = "tls.key"
	authorityKey = "ca.key"
)

// Read reads what is kept. Nothing kept is no error; what can't be read is one, and is to be made anew.
func Read(data map[string][]byte) (Held, error) {
	if len(data[trustKey]) == 0 {
		return Held{}, nil
	}
	var h Held
	for rest := data[trustKey]; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return Held{}, fmt.Errorf("read the authorities in %s: %w", trustKey, err)
		}
		h.Trust = append(h.Trust, c)
	}
	var err error
	if h.Authority, err = tls.X509KeyPair(data[trustKey], data[authorityKey]); err != nil {
		return Held{}, fmt.Errorf("read the authority in %s and %s: %w", trustKey, authorityKey, err)
	}
	if h.Serving, err = tls.X509KeyPair(data[servingCert], data[servingKey]); err != nil {
		return Held{}, fmt.Errorf("read the certificate in %s and %s: %w", servingCert, servingKey, err)
	}
	return h, nil
}

// Data is what to keep of what is held.
func (h Held) Data() (map[string][]byte, error) {
	data := map[string][]byte{trustKey: h.Bundle(), servingCert: encode(h.Serving.Leaf)}
	for name, key := range map[string]any{authorityKey: h.Authority.PrivateKey, servingKey: h.Serving.PrivateKey} {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		data[name] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	return data, nil
}

// Bundle is what callers have to trust, in PEM.
func (h Held) Bundle() []byte { return encode(h.Trust...) }

func encode(all ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range all {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.Bytes()
}
