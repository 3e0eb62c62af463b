package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadAptSources(t *testing.T) {
	const release = "ID=debian\nVERSION_CODENAME=bookworm\n"
	tests := map[string]struct {
		files map[string]string
		want  aptSources
		err   bool
	}{
		"a stanza loses its comments and keeps its key": {
			files: map[string]string{"os-release": release, "apt/sources.list.d/debian.sources": "# our mirror\n" +
				"Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm bookworm-updates\n# note\nComponents: main\n" +
				"Signed-By: /usr/share/keyrings/k.gpg\n\nTypes: deb-src\nURIs: http://mirror.test/debian\nSuites: bookworm\nComponents: main\n"},
			want: aptSources{codename: "bookworm", deb822: "Types: deb\nURIs: http://mirror.test/debian\n" +
				"Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/k.gpg\n\n"},
		},
		"third parties and other releases are left out": {
			files: map[string]string{
				"os-release":                            release,
				"apt/sources.list.d/other.sources":      "Types: deb\nURIs: http://node.test\nSuites: nodistro\nComponents: main\n",
				"apt/sources.list.d/vendor.list":        "deb [signed-by=/k.gpg] https://vendor.test/apt bookworm stable\n",
				"apt/sources.list.d/disabled.list.save": "deb http://mirror.test/debian bookworm main\n",
				"apt/sources.list": "deb http://mirror.test/debian bookworm main contrib\n" +
					"deb-src http://mirror.test/debian bookworm main\n# deb http://old.test/debian bookworm main\n" +
					"deb [arch=amd64] http://mirror.test/security bookworm-security main\n" +
					"deb http://mirror.test/debian trixie main\n",
			},
			want: aptSources{codename: "bookworm", oneLine: "deb http://mirror.test/debian bookworm main contrib\n" +
				"deb [arch=amd64] http://mirror.test/security bookworm-security main\n"},
		},
		"a disabled stanza counts for nothing": {
			files: map[string]string{"os-release": release, "apt/sources.list.d/debian.sources": "Enabled: no\nTypes: deb\n" +
				"URIs: http://mirror.test/debian\nSuites: bookworm\nComponents: main\n"},
			err: true,
		},
		"another distribution is refused": {
			files: map[string]string{"os-release": "ID=ubuntu\nVERSION_CODENAME=noble\n"},
			err:   true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			for path, text := range test.files {
				path = filepath.Join(etc, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := readAptSources(etc)
			if (err != nil) != test.err {
				t.Fatalf("error %v, want one: %t", err, test.err)
			}
			if test.err {
				return
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(aptSources{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDownloadOptionsAreProxiesAndDateChecks(t *testing.T) {
	dump := "Acquire \"\";\nAcquire::Languages:: \"en\";\nAcquire::http::Proxy \"http://proxy.test:3128\";\n" +
		"Acquire::https::Proxy \"\";\nAcquire::Check-Date \"false\";\n"
	want := []string{`Acquire::http::Proxy "http://proxy.test:3128";`, `Acquire::Check-Date "false";`}
	if diff := cmp.Diff(want, downloadOptions(dump)); diff != "" {
		t.Error(diff)
	}
}
