package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// headers is a flag that can be given many times.
type headers http.Header

func (h headers) String() string { return "" }

func (h headers) Set(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if !ok {
		return fmt.Errorf("%q is no header: it must be Name: value", text)
	}
	http.Header(h).Add(name, strings.TrimSpace(value))
	return nil
}

// getOptions are the flags of the get command.
type getOptions struct {
	method, authority, user string
	insecure, digest        bool
	timeout                 time.Duration
	headers                 headers
}

// get fetches a URL to standard output. It fails on any status that is not 2xx, and on a body that ends early.
func get(ctx context.Context, arguments []string, out io.Writer) error {
	o := getOptions{headers: headers{}}
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	flags.StringVar(&o.method, "method", http.MethodGet, "request method, for example POST for lab/serve's switches")
	flags.StringVar(&o.authority, "ca", "", "PEM file of the certificate authority to trust")
	flags.StringVar(&o.user, "user", "", "user:password")
	flags.BoolVar(&o.insecure, "insecure", false, "trust any certificate")
	flags.BoolVar(&o.digest, "digest", false, "print the body's SHA-256 and bytes in place of the body")
	flags.DurationVar(&o.timeout, "timeout", time.Minute, "give up after that time")
	flags.Var(o.headers, "header", "request header, like \"Range: bytes=0-9\"; can be given many times")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("give one URL, after the flags")
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	return fetch(ctx, flags.Arg(0), o, out)
}

func fetch(ctx context.Context, url string, o getOptions, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, o.method, url, nil)
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	request.Header = http.Header(o.headers)
	if user, password, ok := strings.Cut(o.user, ":"); ok {
		request.SetBasicAuth(user, password)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: o.insecure}} // a flag of a test's client
	if o.authority != "" {
		if transport.TLSClientConfig.RootCAs, err = pool(o.authority); err != nil {
			return err
		}
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() // the copy below sees what goes wrong
	sum := sha256.New()
	into := out
	if o.digest {
		into = sum
	}
	bytes, err := io.Copy(into, response.Body)
	if err != nil {
		return fmt.Errorf("read the body: %w after %d bytes", err, bytes)
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s", o.method, url, response.Status)
	}
	if o.digest {
		_, err = fmt.Fprintf(out, "%s %d\n", hex.EncodeToString(sum.Sum(nil)), bytes)
	}
	return err
}

func pool(path string) (*x509.CertPool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load the authority: %w", err)
	}
	certificates := x509.NewCertPool()
	if !certificates.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("load the authority: %s holds no PEM certificate", path)
	}
	return certificates, nil
}
