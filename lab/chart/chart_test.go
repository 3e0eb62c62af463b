package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	root  = "../.."
	chart = "../../charts/vmdisk"
)

// TestTheChartIsMadeFromTheManifests: what is in the tree is what make generate makes, and nothing else is there but what people write.
func TestTheChartIsMadeFromTheManifests(t *testing.T) {
	want, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Chart.yaml", "values.yaml", "values.schema.json", "templates/_flags.tpl", "templates/NOTES.txt"} {
		text, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			t.Fatal(err)
		}
		want[name] = string(text)
	}
	got := map[string]string{}
	err = filepath.WalkDir(chart, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(chart, path)
		got[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run make generate (-made +in the tree):\n%s", diff)
	}
}

// TestNothingOfOneInstallationIsLeft: no template names the image or the namespace of config/.
func TestNothingOfOneInstallationIsLeft(t *testing.T) {
	files, err := Files(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.HasPrefix(name, "templates/") && regexp.MustCompile(`vmdisk:latest|namespace: vmdisk\b|values: \[vmdisk\]`).MatchString(text) {
			t.Errorf("%s names an image or a namespace that is for values to say", name)
		}
	}
}

// TestAManifestThatHasChangedIsNotReplacedInSilence: where a manifest no longer says what is to be replaced, nothing is made of it.
func TestAManifestThatHasChangedIsNotReplacedInSilence(t *testing.T) {
	if _, _, err := asTemplate(controllerFile, "kind: Deployment\n"); err == nil || !strings.Contains(err.Error(), "lacks what is to be replaced") {
		t.Error(err)
	}
}
