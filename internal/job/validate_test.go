package job

import (
	"strings"
	"testing"
)

func TestWhatASourceMustSay(t *testing.T) {
	for name, c := range map[string]struct {
		source Source
		says   string // empty: it is valid
	}{
		"a blank disk says nothing":    {Source{Blank: &Blank{}}, ""},
		"a URL":                        {Source{HTTP: &HTTP{URL: "https://user:secret@images.example/a?b=c"}}, ""},
		"a URL between blanks":         {Source{HTTP: &HTTP{URL: " http://images.example/a\n"}}, ""},
		"a checksum":                   {Source{HTTP: &HTTP{URL: "http://x/y", Checksum: "md5:" + strings.Repeat("0a", 16)}}, ""},
		"no URL":                       {Source{HTTP: &HTTP{}}, "must begin with http:// or https://"},
		"another scheme":               {Source{HTTP: &HTTP{URL: "ftp://secret@x/y"}}, "must begin with http:// or https://"},
		"no host":                      {Source{HTTP: &HTTP{URL: "https:///secret"}}, "name a host"},
		"an escape that isn't one":     {Source{HTTP: &HTTP{URL: "https://x/secret%zz"}}, "characters that must be escaped"},
		"a checksum without algorithm": {Source{HTTP: &HTTP{URL: "http://x/y", Checksum: "abc"}}, "write it as algorithm:hex"},
		"a checksum that is cut":       {Source{HTTP: &HTTP{URL: "http://x/y", Checksum: "sha256:0a"}}, "sha256 needs 64 hexadecimal digits"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.source.Validate()
			switch {
			case c.says == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret")):
				t.Errorf("got %v, want what says %q and no secret", err, c.says)
			}
		})
	}
}
