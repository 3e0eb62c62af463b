package http

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"vmdisk.io/vmdisk/internal/source"
)

// refusal is the error of an answer with another status than one that was asked for. It reads the beginning of what the
// server says, and leaves closing to its caller.
func (s *httpSource) refusal(r *response) *source.Error {
	from := redact(r.at.url)
	if asked := redact(s.url); asked != from {
		from += ", to which " + asked + " redirects"
	}
	e := &source.Error{
		Message:    fmt.Sprintf("%s from %s", statusText(r.StatusCode), from),
		RetryAfter: retryAfter(r.Header.Get("Retry-After"), s.now()),
	}
	switch code := r.StatusCode; {
	case code == http.StatusNotFound:
		e.Reason, e.Permanent = source.NotFound, true
	case code == http.StatusGone:
		e.Reason, e.Permanent = source.Gone, true
	case code == http.StatusUnauthorized:
		e.Reason, e.Permanent = source.Unauthorized, true
		e.Message += ": the server wants a user and password; " + s.texts.advice.Credentials
	case code == http.StatusForbidden:
		e.Reason, e.Permanent = source.Forbidden, true
	case code == http.StatusProxyAuthRequired:
		e.Reason, e.Permanent = source.ProxyRefused, true
	case code == http.StatusRequestTimeout:
		e.Reason = source.Timeout
	case code == http.StatusTooManyRequests:
		e.Reason = source.TooManyRequests
	case code >= 500:
		e.Reason = source.ServerError
	default:
		e.Reason, e.Permanent = source.UnexpectedStatus, true
	}
	if said := r.said(s.secrets(r.at)); said != "" {
		e.Message += fmt.Sprintf("; it says: %q", said)
	}
	return e
}

// statusText is "404 Not Found", by the standard's words and not the server's.
func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return fmt.Sprintf("status %d", status)
}

const (
	// saidBytes is how much of an answer is read for a message, and saidRunes how much of that is shown.
	saidBytes = 2 << 10
	saidRunes = 200
	// saidIdle is how long the next byte of it is waited for.
	saidIdle = 5 * time.Second
	// secretLen is the length in bytes from which a secret is looked for: a shorter one would be found everywhere.
	secretLen = 4
)

// said is the beginning of the text that a server answers, in one line, without markup and without the secrets. It is
// empty where the answer isn't text.
func (r *response) said(secrets []string) string {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "json") && !strings.HasSuffix(kind, "xml") {
		return ""
	}
	r.idle = min(r.idle, saidIdle)
	b, _ := io.ReadAll(io.LimitReader(r, saidBytes)) // what came is enough
	return readable(string(b), secrets)
}

// readable makes one short line of a text, or nothing of what is none.
func readable(text string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= secretLen {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	for text != "" && !utf8.ValidString(text) && len(text) > saidBytes-utf8.UTFMax {
		text = text[:len(text)-1] // the last rune was cut
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return ""
	}
	text = regexp.MustCompile(`(?is)<(style|script)\b.*?(</(style|script)>|$)|<[^>]*>?`).ReplaceAllString(text, " ")
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text)
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > saidRunes {
		return string(runes[:saidRunes]) + "…"
	}
	return string(runes)
}

// maxRetryAfter bounds what a server can ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header: seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	if t, err := http.ParseTime(value); err == nil && t.After(now) {
		return min(t.Sub(now), maxRetryAfter)
	}
	return 0
}
