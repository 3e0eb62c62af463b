package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/lab/serve"
)

const (
	text       = "hello"
	textSHA256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	handler, err := serve.New(serve.Options{Dir: dir, User: "u", Password: "p", HeaderName: "X-Token", HeaderValue: "t"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	tests := map[string]struct {
		arguments []string
		want      string
		says      string
	}{
		"hash prints digest, bytes and path":         {arguments: []string{"hash", file}, want: textSHA256 + " 5 " + file + "\n"},
		"hash can stop early":                        {arguments: []string{"hash", "--bytes", "0", file}, want: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 " + file + "\n"},
		"hash of fewer bytes than asked fails":       {arguments: []string{"hash", "--bytes", "6", file}, says: "after 5 bytes"},
		"hash of nothing fails":                      {arguments: []string{"hash"}, says: "give the paths"},
		"get prints the body":                        {arguments: []string{"get", server.URL + "/file"}, want: text},
		"get prints the digest":                      {arguments: []string{"get", "--digest", server.URL + "/file"}, want: textSHA256 + " 5\n"},
		"get sends user and headers":                 {arguments: []string{"get", "--user", "u:p", "--header", "X-Token: t", server.URL + "/auth/header/file"}, want: text},
		"get fails on a status that is no success":   {arguments: []string{"get", "--digest", server.URL + "/status/404/x"}, says: "404 Not Found"},
		"get fails on a body that ends early":        {arguments: []string{"get", "--digest", server.URL + "/cut/2/file"}, says: "after 2 bytes"},
		"get can post":                               {arguments: []string{"get", "--method", "POST", server.URL + "/switch/x/on"}},
		"sleep ends":                                 {arguments: []string{"sleep", "1ms"}},
		"sleep needs a duration":                     {arguments: []string{"sleep", "soon"}, says: "invalid duration"},
		"an unknown command is told with the known":  {arguments: []string{"wake"}, says: "usage: lab-tools"},
		"no command is told with the known":          {says: "usage: lab-tools"},
		"serve needs an address":                     {arguments: []string{"serve", "--listen", ""}, says: "give --listen or --tls-listen"},
		"serve needs a user and a password together": {arguments: []string{"serve", "--user", "u"}, says: "user:password"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := run(t.Context(), test.arguments, &out)
			if test.says == "" && err != nil {
				t.Fatal(err)
			}
			if test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Fatalf("got error %v, want one that says %q", err, test.says)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" && test.says == "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServeOverHTTPAndHTTPS(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	authority := filepath.Join(t.TempDir(), "ca.pem")
	plain, secure := freeAddress(t), freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"serve", "--dir", dir, "--listen", plain, "--tls-listen", secure, "--ca", authority}, &bytes.Buffer{})
	}()
	awaitAnswer(t, "http://"+plain+"/stats", done)
	for _, arguments := range [][]string{{"get", "http://" + plain + "/file"}, {"get", "--ca", authority, "https://" + secure + "/file"}} {
		var out bytes.Buffer
		if err := run(t.Context(), arguments, &out); err != nil || out.String() != text {
			t.Errorf("%v: got %q, %v", arguments, out.String(), err)
		}
	}
	if err := run(t.Context(), []string{"get", "https://" + secure + "/file"}, &bytes.Buffer{}); err == nil {
		t.Error("the server's authority was trusted without --ca")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve ended with %v", err)
	}
}

// freeAddress returns an address on which nobody listened a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// awaitAnswer asks until the server answers, or has ended.
func awaitAnswer(t *testing.T, url string, done <-chan error) {
	t.Helper()
	for {
		select {
		case err := <-done:
			t.Fatalf("serve ended with %v", err)
		case <-t.Context().Done():
			t.Fatal("the server never answered")
		default:
		}
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
			return
		}
	}
}
