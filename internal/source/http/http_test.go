package http_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/url"
	"slices"
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
		"a server that does everything right":                     {},
		"a server without ranges":                                 {NoRange: true},
		"a server without validators":                             {NoValidator: true},
		"a server with Last-Modified only":                        {LastModified: true},
		"a server of what was changed just now":                   {JustModified: true},
		"a server that sends no length":                           {NoRange: true, Chunked: true},
		"a server that cuts the first connection":                 {CutAfter: 100_000, Cuts: 1},
		"a server that sends shorter parts":                       {MaxPart: 70_000},
		"a server whose tags are weak":                            {WeakETag: true},
		"a server that answers a range of everything without one": {WholeAs200: true},
		"a server that has no ranges and says that it has":        {NoRange: true, ClaimRanges: true},
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
		"a tag that is weak doesn't tell that either": {
			behaviour: sourcetest.Behaviour{WeakETag: true},
			want:      source.Description{Length: size, Validator: `W/"1"`},
			requests:  []string{"GET bytes=0-"},
		},
		"a server that says that it has ranges, but sends none, is tried": {
			behaviour: sourcetest.Behaviour{WholeAs200: true},
			want:      source.Description{Length: size, Ranges: true, Validator: `"1"`},
			requests:  []string{"GET bytes=0-", "GET bytes=3199999-3199999"},
		},
		"and not believed": {
			behaviour: sourcetest.Behaviour{NoRange: true, ClaimRanges: true},
			want:      source.Description{Length: size, Validator: `"1"`},
			requests:  []string{"GET bytes=0-", "GET bytes=3199999-3199999"},
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

func TestOnlyTheHeadIsAskedForAtFirst(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	s := open(t, http.Options{URL: server.URL, Head: 1000})
	d, err := s.Describe(t.Context())
	if err != nil || d.Length != int64(len(content)) || !d.Ranges {
		t.Fatalf("%+v, %v", d, err)
	}
	for _, part := range [][2]int{{0, 1000}, {5000, 6000}} {
		got := make([]byte, part[1]-part[0])
		if _, err := (source.ReaderAt{Context: t.Context(), Source: s}).ReadAt(got, int64(part[0])); err != nil || !bytes.Equal(got, content[part[0]:part[1]]) {
			t.Errorf("%v: %v", part, err)
		}
	}
	if diff := cmp.Diff([]string{"GET bytes=0-999", "GET bytes=5000-5999"}, server.Requests()); diff != "" {
		t.Error(diff)
	}
	if server.Sent() != 2000 {
		t.Errorf("the server sent %d bytes", server.Sent())
	}
}

func TestAHeadIsTheBeginningOfAllWhereAllIsRead(t *testing.T) {
	server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	if _, b, err := readAll(t.Context(), open(t, http.Options{URL: server.URL, Head: 1000})); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if diff := cmp.Diff([]string{"GET bytes=0-999", "GET bytes=1000-3199999"}, server.Requests()); diff != "" {
		t.Error(diff)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	for name, b := range map[string]sourcetest.Behaviour{"with lengths": {}, "in chunks": {Chunked: true}} {
		t.Run(name, func(t *testing.T) {
			var clients []string
			b.Content = content
			b.Check = func(r *nethttp.Request) int {
				if !slices.Contains(clients, r.RemoteAddr) {
					clients = append(clients, r.RemoteAddr)
				}
				return 0
			}
			server := sourcetest.Serve(t, b)
			s := open(t, http.Options{URL: server.URL, Head: 1000})
			if _, err := s.Describe(t.Context()); err != nil {
				t.Fatal(err)
			}
			for at := range 20 {
				if _, err := (source.ReaderAt{Context: t.Context(), Source: s}).ReadAt(make([]byte, 1000), int64(at)*1000); err != nil {
					t.Fatal(err)
				}
			}
			if len(clients) != 1 {
				t.Errorf("there were %d connections", len(clients))
			}
		})
	}
}

func TestHTTP2(t *testing.T) {
	versions := map[int]bool{}
	server := sourcetest.ServeHTTP2(t, sourcetest.Behaviour{Content: content, Check: func(r *nethttp.Request) int {
		versions[r.ProtoMajor] = true
		return 0
	}})
	s := open(t, http.Options{URL: server.URL, InsecureSkipVerify: true})
	if _, b, err := readAll(t.Context(), s); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if diff := cmp.Diff(map[int]bool{2: true}, versions); diff != "" {
		t.Error(diff)
	}
}

// TestWhatIsServedIsWhatIsRead requires that a body is never decoded, and never stored where nobody could decode it.
func TestWhatIsServedIsWhatIsRead(t *testing.T) {
	for coding, refused := range map[string]bool{
		"identity": false, "gzip": false, "x-gzip": false, "ZSTD": false, "": false, "aws-chunked, gzip": false,
		"br": true, "deflate": true, "compress": true, "gzip, br": true, "exotic": true,
	} {
		t.Run(coding, func(t *testing.T) {
			server := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, Header: nethttp.Header{"Content-Encoding": {coding}}})
			_, b, err := readAll(t.Context(), open(t, http.Options{URL: server.URL}))
			if !refused {
				if err != nil || !bytes.Equal(b, content) {
					t.Errorf("%d bytes, %v", len(b), err)
				}
				return
			}
			requireError(t, err, &source.Error{Reason: source.BadAnswer, Permanent: true, Message: fmt.Sprintf("$URL is served with Content-Encoding %q, although it was asked for without: turn that off in the server for disk images", coding)}, server.URL)
		})
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
		"bundles without a certificate":  {http.Options{URL: "http://h", CAs: map[string][]byte{"b": []byte("no"), "a": nil}}, source.Error{Reason: source.InvalidCA, Permanent: true, Message: `none of ["a" "b"] holds a certificate in PEM form`}},
		"a bundle without a certificate": {http.Options{URL: "http://h", CAs: map[string][]byte{"ca.crt": []byte("no")}}, source.Error{Reason: source.InvalidCA, Permanent: true, Message: `"ca.crt" holds no certificate in PEM form`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := http.New(test.options)
			requireError(t, err, &test.want, "")
		})
	}
}
