package layout_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	root := moduleRoot(t)
	files := 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != root && notOurs(name, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files++
		for _, broken := range violations(filepath.ToSlash(relative), string(text)) {
			t.Error(broken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no Go file was found: the walk is broken")
	}
}

// notOurs are the directories that go build would not look into, and those of other modules.
func notOurs(name, base string) bool {
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" {
		return true
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	return err == nil
}

// moduleRoot is the directory of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's directory")
		}
		dir = parent
	}
}

// violations are the rules that one file breaks, as sentences. The name is relative to the module's root.
func violations(name, text string) []string {
	dir := path.Dir(name)
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	var broken []string
	if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "base", "misc"}, file.Name.Name) {
		broken = append(broken, fmt.Sprintf("%s: package %s says nothing about what is in it; name it after that", name, file.Name.Name))
	}
	at := slices.IndexFunc(rules(), func(r rule) bool { return covers(r.packages, dir) })
	if at < 0 {
		return append(broken, fmt.Sprintf("%s: no rule covers %s: add its place to internal/layout/rules_test.go and docs/DESIGN.md", name, dir))
	}
	r := rules()[at]
	for _, imported := range imports(file) {
		if !r.allows(imported) {
			broken = append(broken, fmt.Sprintf("%s imports %s, but %s", name, imported, r.because))
		}
	}
	if covers([]string{"internal/plan/...", "internal/action/...", "internal/pod/..."}, dir) {
		for _, use := range uses(file, "time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker") {
			broken = append(broken, fmt.Sprintf("%s calls time.%s, but a decision must be the same whenever it is taken: pass the time in", name, use))
		}
		for _, use := range uses(file, "k8s.io/apimachinery/pkg/apis/meta/v1", "Now") {
			broken = append(broken, fmt.Sprintf("%s calls metav1.%s, but a decision must be the same whenever it is taken: pass the time in", name, use))
		}
	}
	if covers([]string{"internal/controllers/*", "internal/admission/..."}, dir) {
		for _, use := range uses(file, "sigs.k8s.io/controller-runtime/pkg/client", "Client", "Writer", "WithWatch", "StatusWriter",
			"StatusClient", "SubResourceWriter", "SubResourceClient", "New") {
			broken = append(broken, fmt.Sprintf("%s uses client.%s, but reconcilers hold a client.Reader: only internal/kube can write", name, use))
		}
	}
	if covers([]string{"internal/controllers/...", "internal/admission/..."}, dir) && usesClient(file) {
		broken = append(broken, fmt.Sprintf("%s calls GetClient, but only internal/kube can write: read by GetCache or GetAPIReader, and hand the client to kube.NewWriter", name))
	}
	return broken
}

// usesClient says whether a file takes a manager's client for anything but a kube.Writer.
func usesClient(file *ast.File) bool {
	used := false
	ast.Inspect(file, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && selects(call.Fun, "NewWriter") {
			return false
		}
		expression, ok := node.(ast.Expr)
		used = used || ok && selects(expression, "GetClient")
		return true
	})
	return used
}

func selects(expression ast.Expr, name string) bool {
	selector, ok := expression.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == name
}

// allows says whether a rule allows an import.
func (r rule) allows(imported string) bool {
	if imported == module || strings.HasPrefix(imported, module+"/") {
		return covers(r.ours, strings.TrimPrefix(strings.TrimPrefix(imported, module), "/"))
	}
	if below(r.never, imported) && imported != "net/url" && imported != "net/netip" { // which only parse
		return false
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") { // the standard library
		return true
	}
	return r.others == nil || below(r.others, imported)
}

// imports are the paths that a file imports.
func imports(file *ast.File) []string {
	var all []string
	for _, spec := range file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
			all = append(all, imported)
		}
	}
	return all
}

// uses are the names, of those given, that a file takes from a package that it imports.
func uses(file *ast.File, imported string, names ...string) []string {
	local := ""
	for _, spec := range file.Imports {
		if spec.Path.Value != strconv.Quote(imported) {
			continue
		}
		local = path.Base(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
	}
	if local == "" {
		return nil
	}
	var found []string
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == local && slices.Contains(names, selector.Sel.Name) {
			found = append(found, selector.Sel.Name)
		}
		return true
	})
	return found
}

func TestABrokenRuleIsFoundAndExplained(t *testing.T) {
	tests := map[string]struct {
		file string
		text string
		want []string
	}{
		"a decision may use Kubernetes types and the job": {
			file: "internal/plan/populate/step.go",
			text: `package populate; import ("time"; corev1 "k8s.io/api/core/v1"; "vmdisk.io/vmdisk/internal/job"); var _ time.Duration; var _ corev1.Pod; var _ job.Spec`,
		},
		"a decision has no context": {
			file: "internal/plan/populate/step.go",
			text: `package populate; import "context"`,
			want: []string{"internal/plan/populate/step.go imports context, but plan decides and does nothing: without a context a function cannot do I/O, " +
				"so a reviewer need look no further. Read in the controller, pass the time in, return actions"},
		},
		"a decision does not look at the clock": {
			file: "internal/plan/disk/disk.go",
			text: `package disk; import clock "time"; func f() clock.Time { return clock.Now() }`,
			want: []string{"internal/plan/disk/disk.go calls time.Now, but a decision must be the same whenever it is taken: pass the time in"},
		},
		"an action has no client": {
			file: "internal/action/action.go",
			text: `package action; import "k8s.io/client-go/kubernetes"`,
			want: []string{"internal/action/action.go imports k8s.io/client-go/kubernetes, but an action is a value that says what is to be done; only internal/kube does it"},
		},
		"an image package takes no other module but decompressors": {
			file: "internal/image/qcow2/header.go",
			text: `package qcow2; import ("github.com/klauspost/compress/zstd"; "golang.org/x/sys/unix")`,
			want: []string{"internal/image/qcow2/header.go imports golang.org/x/sys/unix, but image, stream and job are the standard library and decompressors only: " +
				"they handle untrusted bytes, and both halves build on them"},
		},
		"the worker knows no Kubernetes": {
			file: "internal/worker/run.go",
			text: `package worker; import "k8s.io/api/core/v1"`,
			want: []string{"internal/worker/run.go imports k8s.io/api/core/v1, but the worker's half meets the control plane in internal/job only, " +
				"and knows nothing of k8s.io: vmdisk convert on a laptop is the code that runs in the pod"},
		},
		"a controller does not import another, and does not write": {
			file: "internal/controllers/vmdisk/vmdisk.go",
			text: `package vmdisk; import ("sigs.k8s.io/controller-runtime/pkg/client"; "vmdisk.io/vmdisk/internal/controllers/datavolume"); type r struct { client.Client; reader client.Reader }`,
			want: []string{
				"internal/controllers/vmdisk/vmdisk.go imports vmdisk.io/vmdisk/internal/controllers/datavolume, but controllers don't import each other: " +
					"they meet in the objects that they read and write. What two of them decide alike belongs in internal/plan. The data plane is reached through a job only, and the cluster is changed through internal/kube only",
				"internal/controllers/vmdisk/vmdisk.go uses client.Client, but reconcilers hold a client.Reader: only internal/kube can write",
			},
		},
		"a controller does not reach the API by a client of another library": {
			file: "internal/controllers/vmdisk/vmdisk.go",
			text: `package vmdisk; import corev1client "k8s.io/client-go/kubernetes/typed/core/v1"`,
			want: []string{"internal/controllers/vmdisk/vmdisk.go imports k8s.io/client-go/kubernetes/typed/core/v1, but controllers don't import each other: " +
				"they meet in the objects that they read and write. What two of them decide alike belongs in internal/plan. The data plane is reached through a job only, and the cluster is changed through internal/kube only"},
		},
		"nor by its manager's": {
			file: "internal/admission/admission.go",
			text: `package admission; import "vmdisk.io/vmdisk/internal/kube"; var w = kube.NewWriter(mgr.GetClient(), nil); var c = mgr.GetClient()`,
			want: []string{"internal/admission/admission.go calls GetClient, but only internal/kube can write: read by GetCache or GetAPIReader, and hand the client to kube.NewWriter"},
		},
		"which a writer is made of": {
			file: "internal/admission/admission.go",
			text: `package admission; import "vmdisk.io/vmdisk/internal/kube"; var w = kube.NewWriter(mgr.GetClient(), nil)`,
		},
		"the product does not import the lab": {
			file: "internal/cli/root.go",
			text: `package cli; import "vmdisk.io/vmdisk/lab/cluster"`,
			want: []string{"internal/cli/root.go imports vmdisk.io/vmdisk/lab/cluster, but commands put the parts together; the lab is no part of the product"},
		},
		"the lab may import anything": {
			file: "lab/deploy/deploy.go",
			text: `package deploy; import ("vmdisk.io/vmdisk/config"; "vmdisk.io/vmdisk/internal/plan/disk"; "context")`,
		},
		"a package that nobody gave a place": {
			file: "internal/stuff/stuff.go",
			text: `package stuff`,
			want: []string{"internal/stuff/stuff.go: no rule covers internal/stuff: add its place to internal/layout/rules_test.go and docs/DESIGN.md"},
		},
		"a package name that says nothing": {
			file: "internal/kube/util/x.go",
			text: `package util`,
			want: []string{"internal/kube/util/x.go: package util says nothing about what is in it; name it after that"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, violations(test.file, test.text)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}
