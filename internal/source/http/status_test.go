package http_test

import (
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

func TestStatusesAreNamed(t *testing.T) {
	tests := map[int]source.Error{
		401: {Reason: source.Unauthorized, Permanent: true, Message: "401 Unauthorized from $URL/disk.img: the server wants a user and password; check the Secret that secretRef names"},
		403: {Reason: source.Forbidden, Permanent: true, Message: "403 Forbidden from $URL/disk.img"},
		404: {Reason: source.NotFound, Permanent: true, Message: "404 Not Found from $URL/disk.img"},
		410: {Reason: source.Gone, Permanent: true, Message: "410 Gone from $URL/disk.img"},
		418: {Reason: source.UnexpectedStatus, Permanent: true, Message: "418 I'm a teapot from $URL/disk.img"},
		429: {Reason: source.TooManyRequests, Message: "429 Too Many Requests from $URL/disk.img", RetryAfter: 7 * time.Second},
		204: {Reason: source.UnexpectedStatus, Permanent: true, Message: "204 No Content from $URL/disk.img"},
		500: {Reason: source.ServerError, Message: "500 Internal Server Error from $URL/disk.img", RetryAfter: 7 * time.Second},
		503: {Reason: source.ServerError, Message: "503 Service Unavailable from $URL/disk.img", RetryAfter: 7 * time.Second},
	}
	for status, want := range tests {
		t.Run(nethttp.StatusText(status), func(t *testing.T) {
			b := sourcetest.Behaviour{Status: []int{status}, Header: nethttp.Header{}}
			if want.RetryAfter > 0 {
				b.Header.Set("Retry-After", "7")
			}
			server := sourcetest.Serve(t, b)
			u := strings.Replace(server.URL, "://", "://user:pw@", 1) + "/disk.img?token=secret#there"
			_, err := open(t, http.Options{URL: u}).Describe(t.Context())
			requireError(t, err, &want, server.URL)
		})
	}
}

func TestConnectionsThatFailAreNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	plain := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	secure := sourcetest.ServeTLS(t, sourcetest.Behaviour{Content: content})
	tests := map[string]struct {
		url  string
		want source.Error
	}{
		"a host that doesn't exist": {
			"http://does-not-exist.invalid/disk.img",
			source.Error{Reason: source.NoSuchHost, Message: `no such host "does-not-exist.invalid"`},
		},
		"a port where nothing listens": {
			"http://" + closed + "/disk.img",
			source.Error{Reason: source.ConnectionRefused, Message: "connection refused by " + closed + "; nothing listens there, or a firewall or NetworkPolicy rejects it"},
		},
		"a certificate of an unknown authority": {
			secure.URL + "/disk.img",
			source.Error{Reason: source.CertificateInvalid, Permanent: true, Message: "the certificate of " + secure.URL + "/disk.img is signed by an unknown authority, \"O=Acme Co\" (trusted are the system's): give that authority's certificate in certConfigMap"},
		},
		"TLS with a server that speaks plain http": {
			strings.Replace(plain.URL, "http:", "https:", 1),
			source.Error{Reason: source.TLSFailed, Permanent: true, Message: strings.Replace(plain.URL, "http:", "https:", 1) + " doesn't answer with TLS: the server there may speak plain http"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, http.Options{URL: test.url}).Describe(t.Context())
			requireError(t, err, &test.want, "")
		})
	}
}

func TestABlockedConnectionSaysSo(t *testing.T) {
	// What 192.0.2.1 (RFC 5737) does depends on the machine's network, so the time is up before it can do anything.
	s := open(t, http.Options{URL: "http://192.0.2.1:81/disk.img", Timeouts: http.Timeouts{Connect: time.Nanosecond}})
	_, err := s.Describe(t.Context())
	requireError(t, err, &source.Error{Reason: source.Timeout, Message: "timed out connecting to 192.0.2.1:81; a firewall or NetworkPolicy may be blocking it"}, "")
}

func TestWhatTheServerSaysIsToldWithoutSecrets(t *testing.T) {
	tests := map[string]struct {
		kind, said string
		want       string // behind the status and the URL
	}{
		"a text":                {"text/plain", "quota used up\n", `; it says: "quota used up"`},
		"a page":                {"text/html; charset=utf-8", "<html><head><style>b { color: red }</style><title>Sorry</title></head>\n<body><h1>Not for you</h1><script>x</script>", `; it says: "Sorry Not for you"`},
		"a document":            {"application/xml", `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>`, `; it says: "AccessDenied Request has expired"`},
		"an object":             {"application/problem+json", `{"title": "no such tenant"}`, `; it says: "{\"title\": \"no such tenant\"}"`},
		"nothing":               {"text/plain", "", ""},
		"no text":               {"application/octet-stream", "\x7fELF", ""},
		"no text that says so":  {"text/plain", "\xff\xfe\x00", ""},
		"a long one":            {"text/plain", strings.Repeat("äx", 5000), `; it says: "` + strings.Repeat("äx", 100) + `…"`},
		"control characters":    {"text/plain", "a\x1b[31mb\rc", `; it says: "a [31mb c"`},
		"a password":            {"text/plain", "wrong password hunter2 of user Basic dXNlcjpodW50ZXIy", `; it says: "wrong password … of user …"`},
		"a signature":           {"text/plain", "/disk.img?sig=a%2Fbcd: a/bcd is no signature", `; it says: "/disk.img?…: … is no signature"`},
		"a token in the header": {"text/plain", "token s3cr3t of Bearer s3cr3t is bad", `; it says: "token … of … is bad"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := sourcetest.Serve(t, sourcetest.Behaviour{Status: []int{403}, Said: test.said, Header: nethttp.Header{"Content-Type": {test.kind}}})
			_, err := open(t, http.Options{
				URL: server.URL + "/disk.img?sig=a%2Fbcd", User: "user\n", Password: " hunter2\n", Headers: []string{"X-Token: Bearer s3cr3t"},
			}).Describe(t.Context())
			requireError(t, err, &source.Error{Reason: source.Forbidden, Permanent: true, Message: "403 Forbidden from $URL/disk.img" + test.want}, server.URL)
		})
	}
}

func TestAnAnswerThatNeverEndsIsToldInPart(t *testing.T) {
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		w.WriteHeader(nethttp.StatusForbidden)
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte("no, ")); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	_, err := open(t, http.Options{URL: server.URL}).Describe(t.Context())
	requireError(t, err, &source.Error{Reason: source.Forbidden, Permanent: true, Message: "403 Forbidden from $URL; it says: \"" + strings.Repeat("no, ", 50) + "…\""}, server.URL)
}

func TestTheAnswerIsThatOfTheLastAddress(t *testing.T) {
	mirror := sourcetest.Serve(t, sourcetest.Behaviour{Status: []int{404}})
	server := httptest.NewServer(nethttp.RedirectHandler(mirror.URL+"/mirrored?sig=secret", nethttp.StatusFound))
	defer server.Close()
	_, err := open(t, http.Options{URL: server.URL + "/disk.img?token=secret"}).Describe(t.Context())
	requireError(t, err, &source.Error{Reason: source.NotFound, Permanent: true, Message: "404 Not Found from " + mirror.URL + "/mirrored, to which $URL/disk.img redirects"}, server.URL)
}
