package http

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"vmdisk.io/vmdisk/internal/source"
)

// maxRedirects is how many redirects are followed for one request.
const maxRedirects = 10

// place is where a request is sent.
type place struct {
	url  *url.URL
	host string // the Host header, where it isn't the URL's
	// foreign says that redirects have left the origin of the user's URL. Nothing secret is sent there, not even when
	// they come back: it was not the user who chose that URL.
	foreign bool
}

// origin is the place that the user named.
func (s *httpSource) origin() place { return place{url: s.url, host: s.header.Get("Host")} }

// where answers the place to ask: what redirects have led to, or else the origin.
func (s *httpSource) where() (at place, redirected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinned != nil {
		return *s.pinned, true
	}
	return s.origin(), false
}

// pin makes later requests go where redirects have led to. A nil place makes them begin at the origin again.
func (s *httpSource) pin(at *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = at
}

// redirects knows the statuses with which another place is named (RFC 9110, section 15.4).
func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// next is the place that a Location header names.
func (s *httpSource) next(at place, location string) (place, error) {
	u, err := url.Parse(strings.TrimSpace(location))
	if err != nil {
		return place{}, &source.Error{Reason: source.BadAnswer, Err: err, Message: fmt.Sprintf("%s redirects to something that is no URL", redact(at.url))}
	}
	host := at.host
	if u.Host != "" {
		host = ""
	}
	u = at.url.ResolveReference(u)
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return place{}, &source.Error{Reason: source.BadAnswer, Message: fmt.Sprintf("%s redirects to %q, which is not an http or https URL", redact(at.url), redact(u))}
	}
	u.Fragment, u.RawFragment = "", ""
	return place{url: u, host: host, foreign: at.foreign || !sameOrigin(s.url, u)}, nil
}

// sameOrigin reports whether b may be told what is meant for a: the same host and port, or the https side of the same
// host where both have their default ports.
func sameOrigin(a, b *url.URL) bool {
	if !strings.EqualFold(a.Hostname(), b.Hostname()) {
		return false
	}
	if a.Scheme == b.Scheme {
		return port(a) == port(b)
	}
	return a.Scheme == "http" && b.Scheme == "https" && port(a) == "80" && port(b) == "443"
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	case strings.HasPrefix(u.Scheme, "socks5"): // a proxy's
		return "1080"
	default:
		return "80"
	}
}

// headerFor is the header of a request. What the user gave goes to the user's own origin only; there an Authorization
// among the extra headers goes before User and Password.
func (s *httpSource) headerFor(at place, q request) http.Header {
	h := http.Header{}
	switch {
	case at.foreign:
		h["User-Agent"] = s.header.Values("User-Agent")
	default:
		h = s.header.Clone()
		if (s.user != "" || s.password != "") && h.Get("Authorization") == "" {
			h.Set("Authorization", basic(s.user, s.password))
		}
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", userAgent)
	}
	if u := at.url.User; u != nil { // of a redirect
		password, _ := u.Password()
		h.Set("Authorization", basic(u.Username(), password))
	}
	h.Set("Accept-Encoding", "identity")
	h.Del("Range")
	h.Del("If-Range")
	if q.bytes != "" {
		h.Set("Range", "bytes="+q.bytes)
		if condition := q.version.condition(); condition != "" {
			h.Set("If-Range", condition)
		}
	}
	return h
}

// basic is the value of a header for basic authentication (RFC 7617).
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// secrets are the texts that no message may hold, should the server repeat them.
func (s *httpSource) secrets(at place) []string {
	all := []string{s.password, basic(s.user, s.password)}
	for _, values := range s.header {
		for _, v := range values {
			all = append(append(all, v), strings.Fields(v)...)
		}
	}
	for _, u := range []*url.URL{s.url, at.url} {
		all = append(all, u.RawQuery)
		for field := range strings.SplitSeq(u.RawQuery, "&") {
			_, value, _ := strings.Cut(field, "=")
			all = append(all, value)
			if plain, err := url.QueryUnescape(value); err == nil {
				all = append(all, plain)
			}
		}
		if u.User != nil {
			password, _ := u.User.Password()
			all = append(all, password)
		}
	}
	return all
}
