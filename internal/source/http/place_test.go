package http_test

import (
	"bytes"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"vmdisk.io/vmdisk/internal/source"
	"vmdisk.io/vmdisk/internal/source/http"
	"vmdisk.io/vmdisk/internal/source/sourcetest"
)

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
			w.Header().Set("Etag", `"1"`)
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

// TestRedirectsAreFollowedOnce requires that a part isn't asked for by way of the redirect again, until the address that
// it led to fails.
func TestRedirectsAreFollowedOnce(t *testing.T) {
	good := sourcetest.Serve(t, sourcetest.Behaviour{Content: content})
	dying := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, Status: []int{0, 0, 0, 403}})
	mirrors := []string{dying.URL, good.URL}
	var redirected int
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, mirrors[redirected], nethttp.StatusTemporaryRedirect)
		redirected++
	}))
	defer server.Close()
	s := open(t, http.Options{URL: server.URL, Head: 1000, Headers: []string{"X-Token: secret"}})
	if _, err := s.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for at := range 6 {
		got := make([]byte, 1000)
		if _, err := (source.ReaderAt{Context: t.Context(), Source: s}).ReadAt(got, int64(at)*1001); err != nil || !bytes.Equal(got, content[at*1001:at*1001+1000]) {
			t.Fatalf("part %d: %v", at, err)
		}
	}
	type counts struct{ redirected, dying, good int }
	if diff := cmp.Diff(counts{2, 4, 3}, counts{redirected, len(dying.Requests()), len(good.Requests())}, cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
}

// TestAMirrorWithAnotherVersionIsNotMixedIn breaks the connection to one mirror, and the redirect leads to another.
func TestAMirrorWithAnotherVersionIsNotMixedIn(t *testing.T) {
	first := sourcetest.Serve(t, sourcetest.Behaviour{Content: content, CutAfter: 1 << 20, Status: []int{0, 503}})
	second := sourcetest.Serve(t, sourcetest.Behaviour{Content: bytes.ToUpper(content), Header: nethttp.Header{}, LastModified: true})
	to := []string{first.URL, second.URL}
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		nethttp.Redirect(w, r, to[0], nethttp.StatusFound)
		to = to[1:]
	}))
	defer server.Close()
	_, b, err := readAll(t.Context(), open(t, http.Options{URL: server.URL}))
	requireError(t, err, &source.Error{Reason: source.Changed, Message: "$URL changed while it was being read; the next attempt begins again"}, server.URL)
	if !bytes.Equal(b, content[:1<<20]) {
		t.Errorf("%d bytes were read, or not the first object's", len(b))
	}
}

func TestRedirectsThatLeadNowhere(t *testing.T) {
	for location, want := range map[string]string{
		"ftp://user:pw@host/disk.img?secret": `$URL/disk.img redirects to "ftp://host/disk.img", which is not an http or https URL`,
		"file:///etc/passwd":                 `$URL/disk.img redirects to "file:///etc/passwd", which is not an http or https URL`,
		"http://":                            `$URL/disk.img redirects to "http:", which is not an http or https URL`,
		"http://[secret":                     `$URL/disk.img redirects to something that is no URL`,
	} {
		t.Run(location, func(t *testing.T) {
			server := sourcetest.Serve(t, sourcetest.Behaviour{Status: []int{302}, Header: nethttp.Header{"Location": {location}}})
			_, err := open(t, http.Options{URL: server.URL + "/disk.img?secret"}).Describe(t.Context())
			requireError(t, err, &source.Error{Reason: source.BadAnswer, Message: want}, server.URL)
		})
	}
}

func TestAProbeOfAnEndlessAnswerEnds(t *testing.T) {
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		for zeros := make([]byte, 1<<20); r.Context().Err() == nil; {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	s := open(t, http.Options{URL: server.URL, Head: 1000})
	if _, err := s.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); len(b) != 1000 || err != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
