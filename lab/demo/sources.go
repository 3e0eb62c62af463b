package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// aptSources are the machine's own apt sources for its Debian release: the only place that the image's packages come
// from, so that the demo works wherever apt-get works (a mirror, a proxy, a snapshot).
type aptSources struct {
	codename string
	deb822   string // stanzas of *.sources files, sources.list(5)
	oneLine  string // lines of *.list files
	options  []string
}

// readAptSources reads etc (normally /etc). It takes the entries that name the release and the component "main", and
// leaves out what third parties added: an image of Debian needs none of it, and it may not answer.
func readAptSources(etc string) (aptSources, error) {
	release, err := os.ReadFile(filepath.Join(etc, "os-release"))
	if err != nil {
		return aptSources{}, fmt.Errorf("read which Debian this is: %w", err)
	}
	s := aptSources{codename: releaseField(string(release), "VERSION_CODENAME")}
	if id := releaseField(string(release), "ID"); id != "debian" || s.codename == "" {
		return aptSources{}, fmt.Errorf("this machine runs %q, and the demo builds its image from Debian's own apt "+
			"sources: run it on Debian 12 or 13", id)
	}
	lists, err := filepath.Glob(filepath.Join(etc, "apt/sources.list.d/*"))
	if err != nil {
		return aptSources{}, fmt.Errorf("list apt's sources: %w", err)
	}
	for _, path := range append([]string{filepath.Join(etc, "apt/sources.list")}, lists...) {
		text, err := os.ReadFile(path)
		switch {
		case os.IsNotExist(err):
		case err != nil:
			return aptSources{}, fmt.Errorf("read apt's sources: %w", err)
		case strings.HasSuffix(path, ".list"):
			s.oneLine += releaseLines(string(text), s.codename)
		case strings.HasSuffix(path, ".sources"):
			s.deb822 += releaseStanzas(string(text), s.codename)
		}
	}
	if s.oneLine == "" && s.deb822 == "" {
		return aptSources{}, fmt.Errorf("no entry for %q with the component main in %s/apt/sources.list or "+
			"sources.list.d: add one (apt-get needs it too)", s.codename, etc)
	}
	return s, nil
}

// write puts the sources into dir and returns mmdebstrap's arguments for them.
func (s aptSources) write(dir string) ([]string, error) {
	var args []string
	for name, text := range map[string]string{"machine.sources": s.deb822, "machine.list": s.oneLine} {
		if text == "" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("write the image's apt sources: %w", err)
		}
		args = append(args, path)
	}
	slices.Sort(args)
	return args, nil
}

// readAptOptions returns the machine's apt options that decide whether a download works at all: proxies and checks of
// dates. mmdebstrap starts from an empty configuration and would miss them.
func readAptOptions(ctx context.Context) ([]string, error) {
	dump, err := command{name: "apt-config", args: []string{"dump", "Acquire"}}.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("read apt's options: %w", err)
	}
	return downloadOptions(dump), nil
}

func downloadOptions(dump string) []string {
	var options []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSpace(line)
		name := strings.ToLower(line)
		if strings.Contains(name, "::proxy") || strings.HasPrefix(name, "acquire::check-") {
			if !strings.HasSuffix(line, ` "";`) {
				options = append(options, line)
			}
		}
	}
	return options
}

// releaseField returns a field of os-release(5), "" if it isn't there.
func releaseField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// releaseLines keeps the "deb" lines of a .list file for the release.
func releaseLines(text, codename string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, ok := strings.CutPrefix(line, "deb ")
		if !ok {
			continue
		}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			_, rest, _ = strings.Cut(rest, "]")
		}
		fields := strings.Fields(rest)
		if len(fields) >= 3 && ofRelease(fields[1:2], codename) && slices.Contains(fields[2:], "main") {
			kept.WriteString(line + "\n")
		}
	}
	return kept.String()
}

// releaseStanzas keeps the stanzas of a .sources file for the release, without their comments.
func releaseStanzas(text, codename string) string {
	var kept strings.Builder
	for stanza := range strings.SplitSeq(stripComments(text), "\n\n") {
		fields := map[string][]string{}
		var last string
		for line := range strings.Lines(stanza) {
			name, value, ok := strings.Cut(line, ":")
			if ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
				last = strings.ToLower(strings.TrimSpace(name))
				line = value
			}
			fields[last] = append(fields[last], strings.Fields(line)...)
		}
		enabled := !slices.Contains([]string{"no", "false"}, strings.ToLower(strings.Join(fields["enabled"], "")))
		if enabled && slices.Contains(fields["types"], "deb") && ofRelease(fields["suites"], codename) &&
			slices.Contains(fields["components"], "main") {
			kept.WriteString(strings.TrimSpace(stanza) + "\n\n")
		}
	}
	return kept.String()
}

// stripComments drops comment lines and makes every empty line really empty.
func stripComments(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		kept.WriteString(strings.TrimRight(line, " \t\r\n") + "\n")
	}
	return kept.String()
}

func ofRelease(suites []string, codename string) bool {
	return slices.ContainsFunc(suites, func(suite string) bool {
		return suite == codename || suite == codename+"-updates" || suite == codename+"-security"
	})
}
