package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"vmdisk.io/vmdisk/lab/serve"
)

// headerWait is how long a client may take to send its request's header.
const headerWait = time.Minute

// serveOptions are the flags of the serve command.
type serveOptions struct {
	serve.Options
	listen, tlsListen    string
	certificate, key     string
	names, authorityFile string
	user, header         string
}

// serveCommand serves a directory over HTTP and, with --tls-listen, over HTTPS.
func serveCommand(ctx context.Context, arguments []string, out io.Writer) error {
	var o serveOptions
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&o.Dir, "dir", ".", "directory to serve")
	flags.StringVar(&o.listen, "listen", ":80", "addresses for HTTP, with commas between them; empty for none")
	flags.StringVar(&o.tlsListen, "tls-listen", "", "addresses for HTTPS, like :443, with commas between them")
	flags.StringVar(&o.certificate, "tls-cert", "", "PEM file of the server's certificate; without it, one is made")
	flags.StringVar(&o.key, "tls-key", "", "PEM file of its key")
	flags.StringVar(&o.names, "tls-names", "localhost,127.0.0.1", "names and addresses for which a certificate is made")
	flags.StringVar(&o.authorityFile, "ca", "", "with --tls-cert: PEM file to answer at /ca.pem; without: file to write the authority made here to, - for standard output")
	flags.StringVar(&o.user, "user", "user:password", "what /auth/ wants")
	flags.StringVar(&o.header, "header", "X-Token: token", "what /header/ wants")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: all are flags", flags.Arg(0))
	}
	if err := o.split(); err != nil {
		return err
	}
	certificate, err := o.prepareTLS(out)
	if err != nil {
		return err
	}
	server, err := serve.New(o.Options)
	if err != nil {
		return err
	}
	return errors.Join(listenAndServe(ctx, server, o, certificate), server.Close())
}

func (o *serveOptions) split() error {
	var ok bool
	if o.User, o.Password, ok = strings.Cut(o.user, ":"); !ok {
		return fmt.Errorf("--user is %q: it must be user:password", o.user)
	}
	if o.HeaderName, o.HeaderValue, ok = strings.Cut(o.header, ":"); !ok {
		return fmt.Errorf("--header is %q: it must be Name: value", o.header)
	}
	o.HeaderValue = strings.TrimSpace(o.HeaderValue)
	return nil
}

// prepareTLS loads or makes the server's certificate; it returns nil if HTTPS is not asked for.
func (o *serveOptions) prepareTLS(out io.Writer) (*tls.Certificate, error) {
	if o.tlsListen == "" {
		return nil, nil
	}
	if o.certificate != "" {
		certificate, err := tls.LoadX509KeyPair(o.certificate, o.key)
		if err != nil {
			return nil, fmt.Errorf("load the server's certificate: %w", err)
		}
		if o.authorityFile != "" {
			if o.AuthorityPEM, err = os.ReadFile(o.authorityFile); err != nil {
				return nil, fmt.Errorf("load the authority: %w", err)
			}
		}
		return &certificate, nil
	}
	authority, err := serve.NewAuthority()
	if err != nil {
		return nil, err
	}
	certificate, err := authority.Issue(strings.Split(o.names, ",")...)
	if err != nil {
		return nil, err
	}
	o.AuthorityPEM = authority.PEM
	switch o.authorityFile {
	case "":
	case "-":
		_, err = out.Write(authority.PEM)
	default:
		err = os.WriteFile(o.authorityFile, authority.PEM, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("write the authority: %w", err)
	}
	return &certificate, nil
}

// listenAndServe opens every address before it serves on any, and ends with ctx. Requests that run are cut short.
func listenAndServe(ctx context.Context, handler http.Handler, o serveOptions, certificate *tls.Certificate) error {
	// One server for each scheme: a server that has served plain HTTP first offers HTTP/2 over TLS and then can't speak it.
	plain := &http.Server{Handler: handler, ReadHeaderTimeout: headerWait}
	secure := &http.Server{Handler: handler, ReadHeaderTimeout: headerWait}
	if certificate != nil {
		secure.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	}
	type listening struct {
		net.Listener
		serve func(net.Listener) error
	}
	var all []listening
	open := func(addresses string, serve func(net.Listener) error) error {
		for address := range strings.SplitSeq(addresses, ",") {
			if address == "" {
				continue
			}
			listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			all = append(all, listening{listener, serve})
		}
		return nil
	}
	err := errors.Join(
		open(o.listen, plain.Serve),
		open(o.tlsListen, func(l net.Listener) error { return secure.ServeTLS(l, "", "") }))
	if err == nil && len(all) == 0 {
		err = errors.New("there is no address to listen on: give --listen or --tls-listen")
	}
	if err != nil {
		for _, l := range all {
			err = errors.Join(err, l.Close())
		}
		return err
	}
	var wait sync.WaitGroup
	ended := make(chan error, len(all))
	for _, l := range all {
		log.Printf("serving %s on %s", o.Dir, l.Addr())
		wait.Go(func() { ended <- l.serve(l.Listener) })
	}
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	err = errors.Join(err, plain.Close(), secure.Close())
	wait.Wait()
	return err
}
