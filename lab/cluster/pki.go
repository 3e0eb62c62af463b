package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	certificateAge = 365 * 24 * time.Hour
	apiURL         = "https://" + hostAddress + ":" + apiPort
)

// authority is a certificate authority that lives as long as this process; its key is written for the controller manager.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func pki(name string) string { return within("pki", name) }

// user is an identity that a component shows to the API server.
type user struct {
	file   string
	name   string
	groups []string
}

func users() []user {
	list := []user{
		{"admin", "lab-admin", []string{"system:masters"}},
		{"controller-manager", "system:kube-controller-manager", nil},
		{"scheduler", "system:kube-scheduler", nil},
		{"proxy", "system:kube-proxy", nil},
		{"firewall", "lab-firewall", nil},
		{"csi", "lab-csi", nil},
	}
	for _, node := range NodeNames() {
		list = append(list, user{node, "system:node:" + node, []string{"system:nodes"}})
	}
	return list
}

// kubeconfigOf is the path of a component's kubeconfig.
func kubeconfigOf(file string) string {
	if file == "admin" {
		return Kubeconfig()
	}
	return pki(file + ".kubeconfig")
}

// makePKI makes all keys, certificates and kubeconfigs of a new cluster, unless they are there. The file "complete" is
// written last, so that a run that was killed half-way is not taken for a complete one.
func makePKI() error {
	if _, err := os.Stat(pki("complete")); err == nil {
		return nil
	}
	if err := os.RemoveAll(within("pki")); err != nil {
		return fmt.Errorf("remove the keys of an earlier run: %w", err)
	}
	ca, err := newAuthority("ca", "vmdisk-lab")
	if err != nil {
		return err
	}
	front, err := newAuthority("front-proxy-ca", "vmdisk-lab-front-proxy")
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(hostAddress), net.ParseIP(apiService)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	errs := []error{ca.issue("apiserver", server)}
	errs = append(errs, front.issue("front-proxy-client", clientCertificate("front-proxy-client", nil)))
	errs = append(errs, ca.issue("kubelet-client", clientCertificate("kube-apiserver-kubelet-client", []string{"system:masters"})))
	for _, u := range users() {
		errs = append(errs, ca.issue(u.file, clientCertificate(u.name, u.groups)))
		errs = append(errs, writeKubeconfig(u.file))
	}
	_, err = newKey(pki("service-accounts"))
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("make the cluster's keys and certificates: %w", err)
	}
	return writeFile(pki("complete"), "", 0o600)
}

func clientCertificate(name string, groups []string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func newAuthority(file, name string) (*authority, error) {
	key, err := newKey(pki(file))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &authority{certificate: template, key: key}
	return a, a.sign(pki(file), template, key)
}

// issue makes a key and a certificate of the template's name and use: FILE.key and FILE.crt.
func (a *authority) issue(file string, template *x509.Certificate) error {
	key, err := newKey(pki(file))
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return a.sign(pki(file), template, key)
}

func (a *authority) sign(path string, template *x509.Certificate, key *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // pods of a machine whose clock was just set back are no problem then
	template.NotAfter = time.Now().Add(certificateAge)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", filepath.Base(path), err)
	}
	return writeFile(path+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
}

// newKey makes PATH.key, and PATH.pub beside it.
func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	return key, errors.Join(
		writeFile(path+".key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})), 0o600),
		writeFile(path+".pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), 0o644),
	)
}

// writeKubeconfig writes a kubeconfig with everything in it, so that a copy of the file works anywhere on the machine.
func writeKubeconfig(file string) error {
	var content [3][]byte
	for i, path := range []string{pki("ca.crt"), pki(file + ".crt"), pki(file + ".key")} {
		var err error
		if content[i], err = os.ReadFile(path); err != nil {
			return err
		}
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: apiURL, CertificateAuthorityData: content[0]}
	config.AuthInfos[file] = &clientcmdapi.AuthInfo{ClientCertificateData: content[1], ClientKeyData: content[2]}
	config.Contexts["lab"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: file}
	config.CurrentContext = "lab"
	encoded, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(kubeconfigOf(file), string(encoded), 0o600)
}
