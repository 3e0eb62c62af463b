package cdi_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestEveryKeyIsExplained holds docs/COMPAT.md and the files with keys together: who adds a key says there who reads it.
func TestEveryKeyIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/COMPAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, least := range map[string]int{"keys.go": 30, "../v1alpha1/keys.go": 3} {
		values := constants(t, file)
		if len(values) < least {
			t.Fatalf("only %d constants were found in %s: the search is broken", len(values), file)
		}
		for name, value := range values {
			if !mentions(string(page), value) {
				t.Errorf("docs/COMPAT.md does not mention %s, the value of %s in %s: say there what it means and who reads it", value, name, file)
			}
		}
	}
}

// mentions says whether a page has a value, not only as a part of a longer key.
func mentions(page, value string) bool {
	for rest := page; ; {
		at := strings.Index(rest, value)
		if at < 0 {
			return false
		}
		before, after := byte(' '), byte(' ')
		if at > 0 {
			before = rest[at-1]
		}
		if end := at + len(value); end < len(rest) {
			after = rest[end]
		}
		if !isPart(before) && !isPart(after) {
			return true
		}
		rest = rest[at+1:]
	}
}

// isPart says whether a character could belong to a key.
func isPart(c byte) bool {
	return c == '/' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// constants are the exported constants of a file and their values as text.
func constants(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			literal, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s is not written as a literal: this test can't read it", name.Name)
				continue
			}
			values[name.Name] = literal.Value
			if text, err := strconv.Unquote(literal.Value); err == nil {
				values[name.Name] = text
			}
		}
		return true
	})
	return values
}

func TestMentions(t *testing.T) {
	tests := map[string]struct {
		page string
		want bool
	}{
		"the key alone":                 {"see `cdi.example/key`.", true},
		"at the page's end":             {"cdi.example/key", true},
		"only as the start of a longer": {"cdi.example/key-two", false},
		"only as the end of a longer":   {"my-cdi.example/key", false},
		"after a longer one":            {"cdi.example/key-two and cdi.example/key: yes", true},
		"not at all":                    {"nothing", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := mentions(test.page, "cdi.example/key"); got != test.want {
				t.Errorf("mentions(%q) = %v, want %v", test.page, got, test.want)
			}
		})
	}
}
