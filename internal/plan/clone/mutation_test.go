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
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var mutate = flag.String("mutate", "*.go", "files whose conditions are taken out")

// TestLongEveryConditionCounts takes each condition out of the planner's code, one at a time, and runs the tests of its package: one that
// nobody misses is one that no test holds. A condition is the whole of an if or a case, or an operand of && or ||. Run it with
//
//	go test -tags mutation -run TestLongEveryConditionCounts -timeout 60m ./internal/plan/clone
//
// The tests are compiled once for each package, with a switch in every condition; the environment says which one is taken out.
func TestLongEveryConditionCounts(t *testing.T) {
	count, survivors := 0, 0
	for _, dir := range []string{".", "linstor"} {
		m := newMutants(t, dir)
		if output, passes := m.run(t, -1); !passes {
			t.Fatalf("%s: the tests fail with all conditions in their places:\n%s", dir, output)
		}
		for i, missed := range m.missed(t) {
			count++
			if !missed {
				survivors++
				t.Errorf("%s: no test misses it", m.conditions[i])
			}
		}
	}
	t.Logf("%d conditions were taken out, and %d of them nobody missed", count, survivors)
}

// mutants are the tests of a package, compiled so that each condition of its code can be taken out.
type mutants struct {
	dir, binary string
	// conditions are their places and texts.
	conditions []string
}

// switchedOff tells the tests which condition is taken out.
const switchedOff = "CONDITION_TAKEN_OUT"

func newMutants(t *testing.T, dir string) *mutants {
	t.Helper()
	made := t.TempDir()
	m := &mutants{dir: dir, binary: filepath.Join(made, "tests")}
	replace := map[string]string{}
	write := func(name string, text []byte) {
		there, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		replace[there] = filepath.Join(made, name)
		if err := os.WriteFile(replace[there], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, *mutate))
	if err != nil {
		t.Fatal(err)
	}
	pkg := ""
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		var text []byte
		pkg, text = m.switches(t, file)
		write(name, text)
	}
	if len(replace) == 0 {
		return m
	}
	write("switch_off.go", []byte("package "+pkg+"\n\nimport \"os\"\n\nfunc takenOut(i string) bool { return takenOutNow == i }\n\nvar takenOutNow = os.Getenv(\""+switchedOff+"\")\n"))
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(made, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-c", "-o", m.binary, "-overlay", overlay, "./"+dir).CombinedOutput(); err != nil {
		t.Fatalf("%s doesn't compile with switches: %v\n%s", dir, err, output)
	}
	return m
}

// switches is a file with a switch in each condition, which is added to the mutants'. What a condition uses stays used.
func (m *mutants) switches(t *testing.T, name string) (pkg string, text []byte) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	places := found(file)
	for _, p := range places { // before any is changed
		var written bytes.Buffer
		if err := format.Node(&written, set, *p.at); err != nil {
			t.Fatal(err)
		}
		p.number = len(m.conditions)
		m.conditions = append(m.conditions, fmt.Sprintf("%s: %s", set.Position((*p.at).Pos()), written.String()))
	}
	for _, p := range places {
		*p.at = p.switched()
	}
	var out bytes.Buffer
	if err := format.Node(&out, set, file); err != nil {
		t.Fatal(err)
	}
	return file.Name.Name, out.Bytes()
}

// place is a condition, and what stands there without it.
type place struct {
	at      *ast.Expr
	without bool
	number  int
}

// switched is the condition, or what stands there without it.
func (p *place) switched() ast.Expr {
	out := ast.Expr(&ast.CallExpr{Fun: ast.NewIdent("takenOut"), Args: []ast.Expr{&ast.BasicLit{Kind: token.STRING, Value: strconv.Quote(strconv.Itoa(p.number))}}})
	operator := token.LOR
	if !p.without {
		operator, out = token.LAND, &ast.UnaryExpr{Op: token.NOT, X: out}
	}
	return &ast.ParenExpr{X: &ast.BinaryExpr{X: &ast.ParenExpr{X: *p.at}, Op: operator, Y: out}}
}

func found(file *ast.File) []*place {
	var places []*place
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			places = append(places, &place{at: &n.Cond})
		case *ast.SwitchStmt:
			if n.Tag != nil {
				return true
			}
			for _, s := range n.Body.List {
				for i := range s.(*ast.CaseClause).List {
					places = append(places, &place{at: &s.(*ast.CaseClause).List[i]})
				}
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				places = append(places, &place{at: &n.X, without: n.Op == token.LAND}, &place{at: &n.Y, without: n.Op == token.LAND})
			}
		}
		return true
	})
	return places
}

// missed says of each condition whether a test misses it. As many are tried at a time as there are processors.
func (m *mutants) missed(t *testing.T) []bool {
	t.Helper()
	missed := make([]bool, len(m.conditions))
	places := make(chan int)
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for i := range places {
				_, passes := m.run(t, i)
				missed[i] = !passes
			}
		})
	}
	for i := range m.conditions {
		places <- i
	}
	close(places)
	workers.Wait()
	return missed
}

// slow are the tests that take longer than all others together. They are run where those miss nothing.
const slow = "NeverAHang|NeverMatters"

// run says whether the tests pass without a condition; -1: with all of them. What panics is missed, too.
func (m *mutants) run(t *testing.T, without int) (output string, passes bool) {
	t.Helper()
	if len(m.conditions) == 0 {
		return "", true
	}
	for _, which := range []string{"-test.skip=" + slow, "-test.run=" + slow} {
		tests := exec.CommandContext(t.Context(), m.binary, which, "-test.failfast", "-test.timeout=60s")
		tests.Dir = m.dir
		tests.Env = append(os.Environ(), switchedOff+"="+strconv.Itoa(without))
		if text, err := tests.CombinedOutput(); err != nil {
			return string(text), false
		}
	}
	return "", true
}
