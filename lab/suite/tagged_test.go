package suite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTagged(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/plain_test.go":    "package a\nfunc TestPlain(t *testing.T) {}\n",
		"a/tagged_test.go":   "//go:build lab\n\npackage a\nfunc TestMain(m *testing.M) {}\nfunc TestOne(t *testing.T) {}\nfunc helper(t *testing.T) {}\n",
		"a/tagged2_test.go":  "//go:build lab\n\npackage a\nfunc TestTwo(t *testing.T) {}\n",
		"b/c/tagged_test.go": "//go:build lab\n\npackage c\nfunc TestOne(t *testing.T) {}\n",
		"b/other_test.go":    "//go:build other\n\npackage b\nfunc TestOther(t *testing.T) {}\n",
		"b/not_a_test.txt":   "//go:build lab\nfunc TestNo(t *testing.T) {}\n",
		".cache/x_test.go":   "//go:build lab\n\npackage x\nfunc TestHidden(t *testing.T) {}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := tagged(root, "lab")
	if err != nil {
		t.Fatal(err)
	}
	type view struct {
		Packages []string
		Run      string
	}
	want := view{Packages: []string{"./a", "./b/c"}, Run: "-run=^(TestOne|TestTwo)$"}
	if diff := cmp.Diff(want, view{got.packages(), got.run()}); diff != "" {
		t.Errorf("tests with the tag (-want +got):\n%s", diff)
	}
	if _, err := tagged(root, "none"); err == nil {
		t.Error("a tag that no test has is no error: a run of no test would look like a success")
	}
}
