package demo

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"vmdisk.io/vmdisk/lab/serve"
)

// certificate is a server's, in PEM, with the authority that signed it.
type certificate struct{ authority, server, key string }

// newCertificate makes an authority of its own, whose key is forgotten, and a server's certificate for the names.
func newCertificate(names ...string) (certificate, error) {
	authority, err := serve.NewAuthority()
	if err != nil {
		return certificate{}, fmt.Errorf("make the image server's certificate: %w", err)
	}
	issued, err := authority.Issue(names...)
	if err != nil {
		return certificate{}, fmt.Errorf("make the image server's certificate: %w", err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		return certificate{}, fmt.Errorf("encode the image server's key: %w", err)
	}
	return certificate{
		authority: string(authority.PEM),
		server:    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issued.Certificate[0]})),
		key:       string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
	}, nil
}
