//go:build mutation

package clone

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutate = flag.String("mutate", "*.go", "files whose conditions are taken out")

// TestLongEveryConditionCounts takes each condition out of the planner's code, one at a time, and runs the package's tests: one that
// nobody misses is one that no test holds. A condition is the whole of an if or a case, an operand of && or ||, or a negation. Run it with
//
//	go test -tags mutation -run TestLongEveryConditionCounts -timeout 60m ./internal/plan/clone
func TestLongEveryConditionCounts(t *testing.T) {
	files, err := filepath.Glob(*mutate)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "facts.go" { // facts.go words what is decided elsewhere
			continue
		}
		for i, total := 0, conditions(t, name); i < total; i++ {
			count++
			what, text := mutant(t, name, i)
			if survives(t, name, text) {
				t.Errorf("%s: no test misses it", what)
			}
		}
	}
	t.Logf("%d conditions were taken out", count)
}

// conditions counts a file's.
func conditions(t *testing.T, name string) int {
	t.Helper()
	file, _ := parsed(t, name)
	return len(found(file))
}

func parsed(t *testing.T, name string) (*ast.File, *token.FileSet) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file, set
}

// place is a condition, and what stands there without it.
type place struct {
	at      *ast.Expr
	without string
}

func found(file *ast.File) []place {
	var places []place
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			places = append(places, place{&n.Cond, "false"})
		case *ast.SwitchStmt:
			if n.Tag != nil {
				return true
			}
			for _, s := range n.Body.List {
				for i := range s.(*ast.CaseClause).List {
					places = append(places, place{&s.(*ast.CaseClause).List[i], "false"})
				}
			}
		case *ast.BinaryExpr:
			without := map[token.Token]string{token.LAND: "true", token.LOR: "false"}[n.Op]
			if without != "" {
				places = append(places, place{&n.X, without}, place{&n.Y, without})
			}
		}
		return true
	})
	return places
}

// mutant is a file without its i-th condition. What the condition used stays used.
func mutant(t *testing.T, name string, i int) (what string, text []byte) {
	t.Helper()
	file, set := parsed(t, name)
	p := found(file)[i]
	var written bytes.Buffer
	if err := format.Node(&written, set, *p.at); err != nil {
		t.Fatal(err)
	}
	what = fmt.Sprintf("%s: %s", set.Position((*p.at).Pos()), written.String())
	operator := token.LAND // condition && false is false
	if p.without == "true" {
		operator = token.LOR
	}
	*p.at = &ast.ParenExpr{X: &ast.BinaryExpr{X: &ast.ParenExpr{X: *p.at}, Op: operator, Y: ast.NewIdent(p.without)}}
	var out bytes.Buffer
	if err := format.Node(&out, set, file); err != nil {
		t.Fatal(err)
	}
	return what, out.Bytes()
}

// survives says whether the tests pass with a file's other text. What panics or doesn't compile is missed, too.
func survives(t *testing.T, name string, text []byte) bool {
	t.Helper()
	dir := t.TempDir()
	there, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay := filepath.Join(dir, name), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {there: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{changed: text, overlay: list} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-failfast", "-timeout=60s", "-overlay", overlay, ".").CombinedOutput()
	if err != nil && strings.Contains(string(output), "[build failed]") {
		t.Errorf("%s doesn't compile without a condition:\n%s", name, output)
	}
	return err == nil
}
