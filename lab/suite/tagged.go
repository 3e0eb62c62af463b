package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tests are the tests of one package that have a build tag.
type tests struct {
	// dir is the package's directory, as go test takes it: "./lab/e2e".
	dir   string
	names []string
}

// group is the tests of some packages.
type group []tests

// packages are the directories of a group.
func (g group) packages() []string {
	var dirs []string
	for _, one := range g {
		dirs = append(dirs, one.dir)
	}
	return dirs
}

// run is the flag of go test that runs a group's tests and leaves out others of the same packages, which have their own
// stage.
func (g group) run() string {
	var names []string
	for _, one := range g {
		names = append(names, one.names...)
	}
	slices.Sort(names)
	return "-run=^(" + strings.Join(slices.Compact(names), "|") + ")$"
}

// testFunction matches a test's declaration. TestMain is none.
var testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z_][A-Za-z0-9_]*)\(t \*testing\.T\)`)

// tagged finds the tests below a directory whose files have a build tag of that name.
func tagged(root, tag string) (group, error) {
	var all group
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(string(text), "//go:build "+tag+"\n") {
			return nil
		}
		relative, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		all = all.with("./"+filepath.ToSlash(relative), testFunction.FindAllStringSubmatch(string(text), -1))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for tests with the tag %s: %w", tag, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no test has the tag %s: start the tests in the repository's root", tag)
	}
	return all, nil
}

// with is the group with more tests of a package.
func (g group) with(dir string, found [][]string) group {
	for _, match := range found {
		at := slices.IndexFunc(g, func(one tests) bool { return one.dir == dir })
		if at < 0 {
			g, at = append(g, tests{dir: dir}), len(g)
		}
		g[at].names = append(g[at].names, match[1])
	}
	return g
}
