package job

import (
	"errors"
	"net/url"
	"strings"

	"vmdisk.io/vmdisk/internal/stream"
)

// Validate says what no worker could make use of in a source, before one is started. Its errors hold no part of a URL, which may carry
// a password.
func (s Source) Validate() error {
	if s.HTTP == nil {
		return nil
	}
	u, err := url.Parse(strings.TrimSpace(s.HTTP.URL))
	switch {
	case err != nil:
		return errors.New("the URL is malformed: check it for spaces and characters that must be escaped")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("the URL must begin with http:// or https:// and name a host")
	}
	_, err = stream.ParseChecksum(s.HTTP.Checksum)
	return err
}
