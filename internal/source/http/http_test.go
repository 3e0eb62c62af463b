package http_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

// content is ASCII, so that a Server can change it.
var content = bytes.Repeat([]byte("0123456789abcdef"), 200_000)

// open makes a source that never pauses and knows no proxy.
func open(t *testing.T, o http.Options) source.Source {
	t.Helper()
	o.Pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	if o.Proxy == nil {
		o.Proxy = func(*url.URL) (*url.URL, error) { return nil, nil }
	}
	s, err := http.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// readAll describes and reads the whole object.
func readAll(ctx context.Context, s source.Source) (source.Description, []byte, error) {
	d, err := s.Describe(ctx)
	if err != nil {
		return d, nil, err
	}
	r, err := s.Open(ctx, 0, -1)
	if err != nil {
		return d, nil, err
	}
	b, err := io.ReadAll(r)
	return d, b, errors.Join(err, r.Close())
}

func TestHTTPIsASource(t *testing.T) {
	for name, b := range map[string]sourcetest.Behaviour{
		"a server that does everything right":     {},
		"a server without ranges":                 {NoRange: true},
		"a server without validators":             {NoValidator: true},
		"a server with Last-Modified only":        {LastModified: true},
		"a server that sends no length":           {NoRange: true, Chunked: true},
		"a server that cuts the first connection": {CutAfter: 100_000, Cuts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Suite(t, func(t *testing.T, content []byte) source.Source {
				b := b
				b.Content = content
				return open(t, http.Options{URL: sourcetest.Serve(t, b).URL + "/disk.img"})
			})
		})
	}
}

func TestDescribe(t *testing.T) {
	size := int64(len(content))
	tests := map[string]struct {
		behaviour sourcetest.Behaviour
		want      source.Description
		requests  []string
	}{
		"a good server is asked once": {
			want:     source.Description{Length: size, Ranges: true, Validator: `"1"`},
			requests: []string{"GET bytes=0-"},
		},
		"a server that ignores ranges is asked once": {
			behaviour: sourcetest.Behaviour{NoRange: true},
			want:      source.Description{Length: size, Validator: `"1"`},
			requests:  []string{"GET bytes=0-"},
		},
		"a server that refuses ranges is asked without": {
			behaviour: sourcetest.Behaviour{Status: []int{501}, NoRange: true},
			want:      source.Description{Length: size, Validator: `"1"`},
			requests:  []string{"GET bytes=0-", "GET "},
		},
		"without a validator two answers can't be known to be of one object": {
			behaviour: sourcetest.Behaviour{NoValidator: true},
			want:      source.Description{Length: size},
			requests:  []string{"GET bytes=0-"},
		},
		"a server that sends no length": {
			behaviour: sourcetest.Behaviour{NoRange: true, Chunked: true},
			want:      source.Description{Length: source.Unknown, Validator: `"1"`},
			requests:  []string{"GET bytes=0-"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.behaviour.Content = content
			server := sourcetest.Serve(t, test.behaviour)
			test.want.Name = server.URL + "/disk.img"
			got, b, err := readAll(t.Context(), open(t, http.Options{URL: server.URL + "/disk.img?X-Signature=secret"}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if !bytes.Equal(b, content) {
				t.Error("not the content")
			}
			if diff := cmp.Diff(test.requests, server.Requests()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestABrokenConnectionIsMended(t *testing.T) {
	tests := map[string]struct {
		behaviour sourcetest.Behaviour
		want      *source.Error // nil: everything is read
		requests  int
	}{
		"as often as it makes progress": {
			behaviour: sourcetest.Behaviour{CutAfter: 1<<20 + 1},
			requests:  4,
		},
		"by Last-Modified": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 21, LastModified: true},
			requests:  2,
		},
		"over a server that is busy for a while": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, Cuts: 1, Status: []int{0, 503, 429}},
			requests:  4,
		},
		"but not for ever": {
			behaviour: sourcetest.Behaviour{CutAfter: 1000},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 6000 of 3200000 bytes; 5 tries to continue did not help)"},
			requests:  6,
		},
		"but not with another object": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, ChangeAfter: 1},
			want:      &source.Error{Reason: source.Changed, Message: "$URL changed while it was being read; the next attempt begins again"},
			requests:  2,
		},
		"but not with another object from a server that ignores If-Range": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, ChangeAfter: 1, IgnoreIfRange: true},
			want:      &source.Error{Reason: source.Changed, Message: "$URL changed while it was being read; the next attempt begins again"},
			requests:  2,
		},
		"but not where the server has no ranges": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, NoRange: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 of 3200000 bytes; the server can't continue where it stopped)"},
			requests:  1,
		},
		"but not where a chunked answer was cut": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, NoRange: true, Chunked: true},
			want:      &source.Error{Reason: source.ConnectionReset, Message: "the connection broke while reading from $URL (after 1048576 bytes; the server can't continue where it stopped)"},
			requests:  1,
		},
		"but not where the object is gone": {
			behaviour: sourcetest.Behaviour{CutAfter: 1 << 20, Status: []int{0, 404}},
			want:      &source.Error{Reason: source.NotFound, Permanent: true, Message: "404 Not Found from $URL"},
			requests:  2,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.behaviour.Content = content
			server := sourcetest.Serve(t, test.behaviour)
			_, b, err := readAll(t.Context(), open(t, http.Options{URL: server.URL}))
			requireError(t, err, test.want, server.URL)
			if test.want == nil && !bytes.Equal(b, content) {
				t.Error("not the content")
			}
			if !bytes.HasPrefix(content, b) {
				t.Error("what was read before the error is not the content")
			}
			if got := len(server.Requests()); got != test.requests {
				t.Errorf("%d requests, want %d: %q", got, test.requests, server.Requests())
			}
		})
	}
}

// requireError compares all of an error but its cause. In want's message, $URL stands for the server's.
func requireError(t *testing.T, err error, want *source.Error, at string) {
	t.Helper()
	if want == nil {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	var got *source.Error
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want %v", err, want)
	}
	bare := *got
	bare.Err = nil
	expected := *want
	expected.Message = strings.ReplaceAll(want.Message, "$URL", at)
	if diff := cmp.Diff(expected, bare); diff != "" {
		t.Error(diff)
	}
}

func TestAStalledServerIsGivenUp(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, StallAfter: 1 << 20, NoRange: true})
	_, _, err := readAll(t.Context(), open(t, http.Options{URL: server.URL, Timeouts: http.Timeouts{Idle: 50 * time.Millisecond}}))
	requireError(t, err, &source.Error{
		Reason:  source.Timeout,
		Message: "no bytes came from $URL for 50ms (after 1048576 of 3200000 bytes; the server can't continue where it stopped)",
	}, server.URL)
}

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
			source.Error{Reason: source.CertificateInvalid, Permanent: true, Message: "the certificate of " + secure.URL + "/disk.img is signed by an unknown authority: give that authority's certificate in certConfigMap"},
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

func TestCertificates(t *testing.T) {
	server := sourcetest.ServeTLS(t, sourcetest.Behaviour{Content: content})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, o := range map[string]http.Options{
		"an authority of one's own": {CAs: map[string][]byte{"ca.crt": ca}},
		"checks turned off":         {InsecureSkipVerify: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.URL = server.URL
			if _, b, err := readAll(t.Context(), open(t, o)); err != nil || !bytes.Equal(b, content) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

func TestSecretsStayWithTheirOrigin(t *testing.T) {
	type seen struct{ Authorization, Token, Range string }
	var got []seen
	look := func(r *nethttp.Request) int {
		got = append(got, seen{r.Header.Get("Authorization"), r.Header.Get("X-Token"), r.Header.Get("Range")})
		return 0
	}
	object := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, Check: look})
	var back string // where the other origin redirects to
	other := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		look(r)
		nethttp.Redirect(w, r, back, nethttp.StatusFound)
	}))
	defer other.Close()
	first := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		look(r)
		switch r.URL.Path {
		case "/here":
			nethttp.Redirect(w, r, "/object", nethttp.StatusFound)
		case "/there":
			nethttp.Redirect(w, r, object.URL, nethttp.StatusFound)
		case "/there-and-back":
			nethttp.Redirect(w, r, other.URL, nethttp.StatusFound)
		default:
			nethttp.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		}
	}))
	defer first.Close()
	back = first.URL + "/object"
	all := seen{"Basic dXNlcjpwdw==", "t", "bytes=0-"}
	none := seen{"", "", "bytes=0-"}
	for path, want := range map[string][]seen{
		"/here":           {all, all},
		"/there":          {all, none},
		"/there-and-back": {all, none, none},
	} {
		t.Run(path, func(t *testing.T) {
			got = nil
			s := open(t, http.Options{URL: first.URL + path, User: "user", Password: "pw", Headers: []string{"X-Token: t"}})
			if _, b, err := readAll(t.Context(), s); err != nil || !bytes.Equal(b, content) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRedirectsEnd(t *testing.T) {
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, "/again?token=secret", nethttp.StatusFound)
	}))
	defer server.Close()
	_, err := open(t, http.Options{URL: server.URL + "/disk.img"}).Describe(t.Context())
	requireError(t, err, &source.Error{Reason: source.TooManyRedirects, Permanent: true, Message: "more than 10 redirects from $URL/disk.img, the last to $URL/again"}, server.URL)
}

func TestAProxyIsUsed(t *testing.T) {
	proxy := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, http.Options{URL: "http://nowhere.invalid/disk.img", Proxy: func(*url.URL) (*url.URL, error) { return u, nil }})
	if _, b, err := readAll(t.Context(), s); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func TestOptionsWithoutSenseAreRefused(t *testing.T) {
	tests := map[string]struct {
		options http.Options
		want    source.Error
	}{
		"no host":                        {http.Options{URL: "http:///disk.img"}, source.Error{Reason: source.InvalidURL, Permanent: true, Message: `"http:///disk.img" is not an http or https URL`}},
		"another scheme":                 {http.Options{URL: "ftp://u:p@h/disk.img?secret"}, source.Error{Reason: source.InvalidURL, Permanent: true, Message: `"ftp://h/disk.img" is not an http or https URL`}},
		"no URL":                         {http.Options{URL: "http://h:port\n/"}, source.Error{Reason: source.InvalidURL, Permanent: true, Message: "the URL can't be read: check it for spaces and characters that must be escaped"}},
		"a header without a colon":       {http.Options{URL: "http://h", Headers: []string{"secret"}}, source.Error{Reason: source.InvalidHeader, Permanent: true, Message: `extra header 1 is not of the form "Name: value"`}},
		"a header with a line break":     {http.Options{URL: "http://h", Headers: []string{"A: b\nC: d"}}, source.Error{Reason: source.InvalidHeader, Permanent: true, Message: `extra header "A" has a value with characters that no header can have, such as a line break`}},
		"a bundle without a certificate": {http.Options{URL: "http://h", CAs: map[string][]byte{"ca.crt": []byte("no")}}, source.Error{Reason: source.InvalidCA, Permanent: true, Message: `"ca.crt" holds no certificate in PEM form`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := http.New(test.options)
			requireError(t, err, &test.want, "")
		})
	}
}
