package serve

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// plan is how one request is to be answered: the behaviours in its path, and the rest.
type plan struct {
	noRange, noLength, auth, header, html bool

	status         int    // answer this status; 0: none
	flaky          int    // how many first requests fail
	redirect       string // PORT or SCHEME:PORT
	gate           string // the switch that must be on
	bytesPerSecond int64  // 0: as fast as can be
	cutAfter       int64  // bytes of the body; -1: never
	stallAfter     int64  // bytes of the body; -1: never
	corruptAt      int64  // offset in the file; -1: nowhere
	rest           string // the file, or where a redirection leads; no leading slash
}

// behaviour is one name that a path can begin with. Those with an argument take the next part of the path.
type behaviour struct {
	argument bool
	apply    func(p *plan, argument string) error
}

func behaviours() map[string]behaviour {
	return map[string]behaviour{
		"norange":  {apply: func(p *plan, _ string) error { p.noRange = true; return nil }},
		"nolength": {apply: func(p *plan, _ string) error { p.noLength = true; return nil }},
		"auth":     {apply: func(p *plan, _ string) error { p.auth = true; return nil }},
		"header":   {apply: func(p *plan, _ string) error { p.header = true; return nil }},
		"html":     {apply: func(p *plan, _ string) error { p.html = true; return nil }},
		"status":   {argument: true, apply: applyStatus},
		"flaky":    {argument: true, apply: func(p *plan, a string) (err error) { p.flaky, err = strconv.Atoi(a); return err }},
		"redirect": {argument: true, apply: func(p *plan, a string) error { p.redirect = a; return nil }},
		"switch":   {argument: true, apply: func(p *plan, a string) error { p.gate = a; return nil }},
		"slow":     {argument: true, apply: func(p *plan, a string) error { return number(a, &p.bytesPerSecond) }},
		"cut":      {argument: true, apply: func(p *plan, a string) error { return number(a, &p.cutAfter) }},
		"stall":    {argument: true, apply: func(p *plan, a string) error { return number(a, &p.stallAfter) }},
		"corrupt":  {argument: true, apply: func(p *plan, a string) error { return number(a, &p.corruptAt) }},
	}
}

// parse reads behaviours from the front of the path until a part is none. What follows a redirection belongs to the
// place where it leads.
func parse(path string) (plan, error) {
	p := plan{cutAfter: -1, stallAfter: -1, corruptAt: -1}
	known := behaviours()
	p.rest = strings.TrimPrefix(path, "/")
	for p.redirect == "" {
		name, rest, _ := strings.Cut(p.rest, "/")
		b, ok := known[name]
		if !ok {
			return p, nil
		}
		argument := ""
		if b.argument {
			argument, rest, _ = strings.Cut(rest, "/")
			if argument == "" {
				return plan{}, fmt.Errorf("/%s/ needs an argument", name)
			}
		}
		if err := b.apply(&p, argument); err != nil {
			return plan{}, fmt.Errorf("/%s/%s: %w", name, argument, err)
		}
		p.rest = rest
	}
	return p, nil
}

func applyStatus(p *plan, argument string) error {
	code, err := strconv.Atoi(argument)
	if err != nil || http.StatusText(code) == "" || code < 200 {
		return fmt.Errorf("%q is no HTTP status", argument)
	}
	p.status = code
	return nil
}

func number(text string, into *int64) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of bytes", text)
	}
	*into = n
	return nil
}
