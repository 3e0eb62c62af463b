package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const content = "0123456789abcdefghijklmnopqrstuvwxyz"

func start(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "disk"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	server, err := New(Options{Dir: dir, User: "u", Password: "p", HeaderName: "X-Token", HeaderValue: "t", AuthorityPEM: []byte("PEM")})
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(server)
	t.Cleanup(func() {
		listening.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return listening.URL
}

// answer is what the tests compare of a response. Cut is true if the body ended early.
type answer struct {
	Status int
	Body   string
	Cut    bool
	Header map[string]string
}

// ask makes a request, with pairs of header names and values, and keeps the headers that are named in keep.
func ask(t *testing.T, method, target string, keep []string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	got := answer{Status: response.StatusCode, Body: string(body), Cut: err != nil}
	for _, name := range keep {
		if got.Header == nil {
			got.Header = map[string]string{}
		}
		got.Header[name] = response.Header.Get(name)
	}
	return got
}

func TestBehaviours(t *testing.T) {
	const basic = "Basic dTpw" // u:p
	tests := map[string]struct {
		method, path string
		headers      []string
		keep         []string
		want         answer
	}{
		"a plain file is served whole": {
			path: "/disk", keep: []string{"Accept-Ranges", "Content-Length"},
			want: answer{200, content, false, map[string]string{"Accept-Ranges": "bytes", "Content-Length": "36"}},
		},
		"a plain file is served in parts": {
			path: "/disk", headers: []string{"Range", "bytes=10-12"}, want: answer{Status: 206, Body: "abc"},
		},
		"HEAD tells the length": {
			method: "HEAD", path: "/disk", keep: []string{"Content-Length"},
			want: answer{200, "", false, map[string]string{"Content-Length": "36"}},
		},
		"a missing file is not found":                  {path: "/nothing", want: answer{Status: 404, Body: "404 page not found\n"}},
		"a directory is not listed":                    {path: "/", want: answer{Status: 404, Body: "404 page not found\n"}},
		"a link out of the directory is not followed":  {path: "/link", want: answer{Status: 404, Body: "404 page not found\n"}},
		"a path that climbs out of it is not followed": {path: "/norange/../../etc/passwd", want: answer{Status: 404, Body: "404 page not found\n"}},
		"norange ignores Range and offers none": {
			path: "/norange/disk", headers: []string{"Range", "bytes=10-12"}, keep: []string{"Accept-Ranges", "Content-Length"},
			want: answer{200, content, false, map[string]string{"Accept-Ranges": "", "Content-Length": "36"}},
		},
		"norange does not know HEAD": {method: "HEAD", path: "/norange/disk", want: answer{Status: 405}},
		"nolength tells no length": {
			path: "/nolength/disk", keep: []string{"Content-Length"},
			want: answer{200, content, false, map[string]string{"Content-Length": ""}},
		},
		"a status is answered with Retry-After": {
			path: "/status/503/disk?retry-after=7", keep: []string{"Retry-After"},
			want: answer{503, "Service Unavailable\n", false, map[string]string{"Retry-After": "7"}},
		},
		"auth asks for the password": {
			path: "/auth/disk", keep: []string{"Www-Authenticate"},
			want: answer{401, "user and password are needed\n", false, map[string]string{"Www-Authenticate": `Basic realm="lab"`}},
		},
		"auth serves who knows it":           {path: "/auth/disk", headers: []string{"Authorization", basic}, want: answer{Status: 200, Body: content}},
		"header refuses who has none":        {path: "/header/disk", want: answer{Status: 403, Body: "header X-Token is needed\n"}},
		"header serves who has it":           {path: "/header/disk", headers: []string{"X-Token", "t"}, want: answer{Status: 200, Body: content}},
		"html is a page in place of a disk":  {path: "/html/disk", keep: []string{"Content-Type"}, want: answer{200, page, false, map[string]string{"Content-Type": "text/html; charset=utf-8"}}},
		"cut ends the body early":            {path: "/cut/5/disk", want: answer{Status: 200, Body: content[:5], Cut: true}},
		"cut counts from where a range is":   {path: "/cut/5/disk", headers: []string{"Range", "bytes=10-"}, want: answer{Status: 206, Body: "abcde", Cut: true}},
		"cut beyond the end cuts nothing":    {path: "/cut/50/disk", want: answer{Status: 200, Body: content}},
		"cut works without a length":         {path: "/cut/5/nolength/disk", want: answer{Status: 200, Body: content[:5], Cut: true}},
		"corrupt flips one byte":             {path: "/corrupt/2/disk", want: answer{Status: 200, Body: "01\xcd" + content[3:]}},
		"corrupt flips it in a part as well": {path: "/corrupt/12/disk", headers: []string{"Range", "bytes=11-13"}, want: answer{Status: 206, Body: "b\x9cd"}},
		"corrupt flips it without ranges":    {path: "/corrupt/2/norange/disk", want: answer{Status: 200, Body: "01\xcd" + content[3:]}},
		"slow sends everything":              {path: "/slow/1000000/disk", want: answer{Status: 200, Body: content}},
		"a bad argument is told":             {path: "/cut/x/disk", want: answer{Status: 400, Body: "/cut/x: \"x\" is no number of bytes\n"}},
		"a missing argument is told":         {path: "/cut", want: answer{Status: 400, Body: "/cut/ needs an argument\n"}},
		"the authority can be fetched":       {path: "/ca.pem", want: answer{Status: 200, Body: "PEM"}},
		"a put is refused":                   {method: "PUT", path: "/disk", want: answer{Status: 405, Body: "PUT is not served\n"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			method := test.method
			if method == "" {
				method = http.MethodGet
			}
			got := ask(t, method, start(t)+test.path, test.keep, test.headers...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirect(t *testing.T) {
	base, err := url.Parse(start(t))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, want string }{
		"keeps the scheme, the host, the rest and the query": {"/redirect/8443/norange/disk?a=b", "http://" + base.Hostname() + ":8443/norange/disk?a=b"},
		"can change the scheme":                              {"/redirect/https:8443/disk", "https://" + base.Hostname() + ":8443/disk"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ask(t, http.MethodGet, base.String()+test.path, []string{"Location"})
			if got.Status != http.StatusFound || got.Header["Location"] != test.want {
				t.Errorf("got %d to %q, want 302 to %q", got.Status, got.Header["Location"], test.want)
			}
		})
	}
}

func TestFlakyFailsTheFirstRequestsOfAPath(t *testing.T) {
	base := start(t)
	var got []int
	for range 4 {
		got = append(got, ask(t, http.MethodGet, base+"/flaky/2/disk", nil).Status)
	}
	got = append(got, ask(t, http.MethodGet, base+"/flaky/1/disk", nil).Status)
	if diff := cmp.Diff([]int{503, 503, 200, 200, 503}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestSwitchOpensAPath(t *testing.T) {
	base := start(t)
	var got []int
	for _, step := range []struct{ method, path string }{
		{"GET", "/switch/s/disk"}, {"POST", "/switch/s/on"}, {"GET", "/switch/s/disk"}, {"GET", "/switch/another/disk"},
		{"POST", "/switch/s/off"}, {"GET", "/switch/s/disk"}, {"POST", "/disk"},
	} {
		got = append(got, ask(t, step.method, base+step.path, nil).Status)
	}
	if diff := cmp.Diff([]int{404, 204, 200, 404, 204, 404, 404}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestStallSendsNothingMoreUntilTheClientGoes(t *testing.T) {
	base := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/stall/5/disk", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(response.Body, head); err != nil || string(head) != content[:5] {
		t.Fatalf("the first bytes are %q (%v)", head, err)
	}
	// Were there more, they would be here by now or soon: the read ends by the cancellation only.
	time.AfterFunc(20*time.Millisecond, cancel)
	if n, err := response.Body.Read(head); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the stall came %d bytes and %v", n, err)
	}
}

func TestSlowIsSlow(t *testing.T) {
	base := start(t)
	begin := time.Now()
	ask(t, http.MethodGet, base+"/slow/360/disk", nil)
	if took := time.Since(begin); took < 90*time.Millisecond {
		t.Errorf("36 bytes at 360 a second took %v", took)
	}
}

func TestStats(t *testing.T) {
	base := start(t)
	ask(t, http.MethodGet, base+"/disk", nil, "Range", "bytes=0-3")
	ask(t, http.MethodHead, base+"/disk", nil)
	ask(t, http.MethodGet, base+"/cut/5/disk", nil)
	want := Stats{
		"/disk":       {File: "disk", Requests: 2, Heads: 1, Bytes: 4, Ranges: []string{"bytes=0-3"}, Statuses: map[string]int{"200": 1, "206": 1}},
		"/cut/5/disk": {File: "disk", Requests: 1, Bytes: 5, Statuses: map[string]int{"200": 1}},
	}
	if diff := cmp.Diff(want, stats(t, base)); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	ask(t, http.MethodPost, base+"/reset", nil)
	if diff := cmp.Diff(Stats{}, stats(t, base)); diff != "" {
		t.Errorf("stats after the reset (-want +got):\n%s", diff)
	}
}

func stats(t *testing.T, base string) Stats {
	t.Helper()
	var got Stats
	decoder := json.NewDecoder(strings.NewReader(ask(t, http.MethodGet, base+"/stats", nil).Body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAuthorityIsTrustedForTheNamesItIssues(t *testing.T) {
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.Issue("images.tenant.svc", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { send(w, []byte("hello")) }))
	listening.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	listening.Config.ErrorLog = nil
	listening.StartTLS()
	defer listening.Close()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority.PEM) {
		t.Fatal("the authority's PEM holds no certificate")
	}
	for _, name := range []string{"images.tenant.svc", "127.0.0.1"} {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: name}}}
		response, err := client.Get(listening.URL)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil || !bytes.Equal(body, []byte("hello")) {
			t.Errorf("%s: got %q, %v", name, body, err)
		}
		client.CloseIdleConnections()
	}
}
