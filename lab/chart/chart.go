// Package chart makes the Helm chart's templates from the manifests in config/, so that there is one source of what is installed: what
// differs from one installation to another is put in the place of what the manifests say. It must not know how charts are rendered.
package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Write makes the generated files of the chart in charts/vmdisk, below the repository's root, from those in config/.
func Write(root, into string) error {
	files, err := Files(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(into, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make the chart's directory: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the chart: %w", err)
		}
	}
	return nil
}

// Files are the generated files, by their names in the chart.
func Files(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, of := range []struct {
		pattern string
		make    func(name, text string) (path, made string, err error)
	}{
		{"config/crd/*.yaml", asCRD}, {"config/manifests/*.yaml", asTemplate}, {"config/populator/*.yaml", asPopulator}, {"config/alerts/*.yaml", asAlerts},
	} {
		names, err := filepath.Glob(filepath.Join(root, of.pattern))
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", of.pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, fmt.Errorf("read a manifest: %w", err)
			}
			path, made, err := of.make(filepath.Base(name), string(text))
			if err != nil {
				return nil, fmt.Errorf("make a template of %s: %w", name, err)
			}
			if path != "" {
				files[path] = made
			}
		}
	}
	return files, nil
}

// asCRD puts a CRD where Helm installs it before everything else, and never removes it: with a CRD all disks would go.
func asCRD(name, text string) (string, string, error) {
	return "crds/" + name, text, nil
}

const made = "{{- /* Made from config/ by make generate; edit that. */ -}}\n"

// asTemplate makes a template of a manifest. The namespace is Helm's to make.
func asTemplate(name, text string) (string, string, error) {
	if name == namespaceFile {
		return "", "", nil
	}
	text, err := replaced(name, text)
	if err != nil {
		return "", "", err
	}
	var documents []string
	for _, document := range strings.Split(text, "\n---\n") {
		documents = append(documents, conditional(name, document))
	}
	return "templates/" + unnumbered(name), made + strings.Join(documents, "\n---\n"), nil
}

// asPopulator makes a template of a manifest of the populator, which is installed on request.
func asPopulator(name, text string) (string, string, error) {
	text, err := replaced(name, text)
	if err != nil {
		return "", "", err
	}
	return "templates/populator/" + unnumbered(name), made + "{{- if .Values.populator.enabled }}\n" + strings.TrimSuffix(text, "\n") + "\n{{- end }}\n", nil
}

// replaced puts what values say into a manifest.
func replaced(name, text string) (string, error) {
	for _, r := range replacements() {
		switch {
		case r.in == name && !strings.Contains(text, r.old):
			return "", fmt.Errorf("it lacks what is to be replaced, %q: change lab/chart/values.go with it", r.old)
		case r.in == name || r.in == everywhere:
			text = strings.ReplaceAll(text, r.old, r.new)
		}
	}
	return text, nil
}

// unnumbered is a manifest's name without its number, which is the order in which kubectl applies the files; Helm has its own.
func unnumbered(name string) string {
	_, rest, _ := strings.Cut(name, "-")
	return rest
}

// conditional wraps a document in the condition under which it is installed.
func conditional(name, document string) string {
	for _, c := range conditions() {
		if c.in == name && strings.Contains(document, c.holds) {
			return fmt.Sprintf("{{- if %s }}\n%s\n{{- end }}", c.when, strings.TrimSuffix(document, "\n"))
		}
	}
	return document
}

// asAlerts makes a template of the alerts, whose own templates are Prometheus' and not Helm's.
func asAlerts(name, text string) (string, string, error) {
	text = strings.NewReplacer("{{", "{{ `{{", "}}", "}}` }}").Replace(text)
	for _, r := range alertReplacements() {
		if !strings.Contains(text, r.old) {
			return "", "", fmt.Errorf("it lacks what is to be replaced, %q: change lab/chart/values.go with it", r.old)
		}
		text = strings.ReplaceAll(text, r.old, r.new)
	}
	return "templates/" + name, made + "{{- if .Values.alerts.enabled }}\n" + strings.TrimSuffix(text, "\n") + "\n{{- end }}\n", nil
}
