package http

import (
	"bufio"
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"vmdisk.io/vmdisk/internal/source"
)

// scripted answers requests with what a server might have sent, the last of it again and again.
type scripted struct {
	t       *testing.T
	answers []string
	n       int
}

// RoundTrip implements http.RoundTripper.
func (s *scripted) RoundTrip(r *nethttp.Request) (*nethttp.Response, error) {
	if s.n++; s.n > 500 {
		s.t.Fatal("there is no end to the requests")
	}
	if got := r.Header.Get("Authorization"); strings.Contains(got, "dXNlcjpodW50ZXIy") && !sameOrigin(&url.URL{Scheme: "http", Host: "host"}, r.URL) {
		s.t.Fatalf("%s was told the password", r.URL)
	}
	answer := s.answers[min(s.n, len(s.answers))-1]
	return nethttp.ReadResponse(bufio.NewReader(strings.NewReader(answer)), r)
}

// FuzzAnswers sees that whatever a server answers does no harm: what was described is what is read, or an error that
// holds no secret.
func FuzzAnswers(f *testing.F) {
	const part = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Length: 5\r\nContent-Range: bytes 0-4/10\r\n\r\n01234"
	const rest = "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\n\r\n56789"
	for _, answers := range [][3]string{
		{part, rest, rest},
		{"HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nLast-Modified: Mon, 30 Nov 2026 12:01:00 GMT\r\nDate: Mon, 30 Nov 2026 12:02:00 GMT\r\nContent-Length: 10\r\n\r\n01234", rest, rest},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: W/\"1\"\r\n\r\n5\r\n01234\r\n0\r\n\r\n", "", ""},
		{"HTTP/1.1 302 Found\r\nLocation: //other/disk.img?sig=x\r\nContent-Length: 0\r\n\r\n", part, rest},
		{"HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n", "HTTP/1.1 307 Found\r\nLocation: http://user:pw@host:80/\r\n\r\n", part},
		{"HTTP/1.1 503 Service Unavailable\r\nRetry-After: Mon, 30 Nov 2026 12:01:00 GMT\r\n\r\nbusy", "", ""},
		{part, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Type: text/html\r\n\r\n<b>no</b>", rest},
		{"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", ""},
		{"HTTP/1.1 200 OK\r\nContent-Encoding: br, gzip\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 206 x\r\nContent-Range: bytes 9223372036854775806-9223372036854775807/*\r\n\r\n", ""},
	} {
		f.Add(answers[0], answers[1], answers[2])
	}
	f.Fuzz(func(t *testing.T, first, second, third string) {
		// It is looked for in what comes out, so the server must not know it.
		for _, answer := range []string{first, second, third} {
			if strings.Contains(answer, "hunter2") {
				return
			}
		}
		s, err := New(Options{
			URL: "http://user:hunter2@host/disk.img?token=hunter2", Proxy: func(*url.URL) (*url.URL, error) { return nil, nil },
			Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		})
		if err != nil {
			t.Fatal(err)
		}
		h := s.(*httpSource)
		h.client = &scripted{t: t, answers: []string{first, second, third}}
		h.more = h.client
		if err := readScripted(t, s); err != nil {
			var e *source.Error
			if !errors.As(err, &e) {
				t.Fatalf("the error %v has no reason", err)
			}
			if strings.Contains(e.Message, "hunter2") || e.RetryAfter < 0 || e.RetryAfter > maxRetryAfter {
				t.Fatalf("%+v", e)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// readScripted describes and reads the whole, and then a part.
func readScripted(t *testing.T, s source.Source) error {
	d, err := s.Describe(t.Context())
	if err != nil {
		return err
	}
	if d.Length < source.Unknown || d.Ranges && (d.Length == source.Unknown || d.Validator == "") {
		t.Fatalf("%+v", d)
	}
	r, err := s.Open(t.Context(), 0, -1)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, r)
	if err == nil && d.Length != source.Unknown && n != d.Length {
		t.Fatalf("%d bytes were read of %+v", n, d)
	}
	if closeErr := r.Close(); closeErr != nil {
		t.Fatal(closeErr)
	}
	if err != nil || !d.Ranges {
		return err
	}
	b := make([]byte, 10)
	if n, err = readPart(t, s, b); n > int64(len(b)) {
		t.Fatalf("%d bytes of 10", n)
	}
	return err
}

func readPart(t *testing.T, s source.Source, b []byte) (int64, error) {
	n, err := source.ReaderAt{Context: t.Context(), Source: s}.ReadAt(b, 3)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return int64(n), err
}

// FuzzHeaders sees that no header of an answer does harm.
func FuzzHeaders(f *testing.F) {
	f.Add("bytes 0-9/10", "120", `"1"`, "/disk.img?a#b", "<b>no</b>\xff")
	f.Add("bytes 0-9/*", "Mon, 30 Nov 2026 12:01:00 GMT", `W/"1"`, "//host", "token s3cr3t")
	f.Add("bytes 9223372036854775807-0/-1", "-1", "", "file:///etc/passwd", "<style")
	f.Fuzz(func(t *testing.T, contentRange, after, etag, location, said string) {
		if c, err := parseContentRange(contentRange); err == nil && (c.first < 0 || c.last < c.first || c.total >= 0 && c.last >= c.total) {
			t.Fatalf("%q became %+v", contentRange, c)
		}
		if d := retryAfter(after, time.Unix(0, 0)); d < 0 || d > maxRetryAfter {
			t.Fatalf("%q became %v", after, d)
		}
		v := validator{etag: etag}
		if !v.agrees(v) {
			t.Fatalf("%q doesn't agree with itself", etag)
		}
		origin := &url.URL{Scheme: "http", Host: "host", Path: "/a/b"}
		if to, err := (&httpSource{url: origin}).next(place{url: origin}, location); err == nil && (to.url.Hostname() == "" || !to.foreign && !strings.EqualFold(to.url.Hostname(), "host")) {
			t.Fatalf("%q leads to %+v", location, to)
		}
		if text := readable(said, []string{"s3cr3t"}); strings.Contains(text, "s3cr3t") || len([]rune(text)) > saidRunes+1 || strings.ContainsAny(text, "\x00\n\x1b") {
			t.Fatalf("%q became %q", said, text)
		}
	})
}
