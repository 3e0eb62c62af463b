package clone

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// example is a worked case: a cluster, arguments, and the answers. testdata/cases/expect.yaml has them.
type example struct {
	ID    string   `json:"id"`
	Title string   `json:"title"`
	Args  []string `json:"args"`
	CDI   struct {
		Refusal Reason `json:"refusal"`
	} `json:"cdi"`
	VMDisk answer `json:"vmdisk"`
}

// answer is the part of a plan that cases speak of.
type answer struct {
	Strategy            Strategy `json:"strategy"`
	Reason              Reason   `json:"reason"`
	Fallback            Strategy `json:"fallback"`
	Nodes               []string `json:"nodes"`
	StorageClass        string   `json:"storageClass"`
	VolumeSnapshotClass string   `json:"volumeSnapshotClass"`
	Then                Strategy `json:"then"`
	Expand              bool     `json:"expand"`
	RestsReady          bool     `json:"restsReady"`
}

func (p Plan) answer() answer {
	return answer{p.Strategy, p.Reason, p.Fallback, p.Nodes, p.StorageClass, p.VolumeSnapshotClass, p.Then, p.Expand, p.RestsReady}
}

// examples are the worked cases.
func examples(t testing.TB) []example {
	t.Helper()
	text, err := os.ReadFile("testdata/cases/expect.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// options reads a case's arguments.
func (e example) options(t testing.TB) Options {
	t.Helper()
	o := Options{Policy: Policy{Engine: EngineVMDisk}}
	for _, arg := range e.Args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "--image-namespace":
			o.ImageNamespace = value
		case "--image-prefix":
			o.ImagePrefix = value
		case "--default-storage-class":
			o.DefaultClass = value
		case "--selected-node":
			o.SelectedNode = value
		case "--source-nodes":
			o.SourceNodes = strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		case "--no-snapshot-api":
			o.NoSnapshotAPI = true
		default:
			t.Fatalf("%s: the argument %s is not known", e.ID, arg)
		}
	}
	return o
}

// objects are the manifests of a case.
func (e example) objects(t testing.TB) []map[string]any {
	t.Helper()
	return parse(t, read(t, e.ID))
}

func read(t testing.TB, id string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/cases/objects", id+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t testing.TB, text string) []map[string]any {
	t.Helper()
	var objects []map[string]any
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		var o map[string]any
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatal(err)
		case o != nil:
			objects = append(objects, o)
		}
	}
}

func clusterOf(t testing.TB, objects []map[string]any) Cluster {
	t.Helper()
	var c Cluster
	for _, o := range objects {
		if read, err := c.Add(o); err != nil || !read {
			t.Fatalf("%v is read: %v: %v", o["kind"], read, err)
		}
	}
	return c
}

// plan is the one plan of a case.
func (e example) plan(t testing.TB, objects []map[string]any) Plan {
	t.Helper()
	c, o := clusterOf(t, objects), e.options(t)
	requests := All(c, o)
	if len(requests) != 1 {
		t.Fatalf("%s has %d requests, want 1", e.ID, len(requests))
	}
	return Of(requests[0], c, o)
}

func TestCases(t *testing.T) {
	all := examples(t)
	if len(all) < 102 {
		t.Errorf("there are %d cases, want at least 102", len(all))
	}
	for _, e := range all {
		t.Run(e.ID, func(t *testing.T) {
			got := e.plan(t, e.objects(t))
			if diff := cmp.Diff(e.VMDisk, got.answer()); diff != "" || got.Refusal != e.CDI.Refusal {
				t.Errorf("%s: refusal %q, want %q; plan (-want +got):\n%s\n%s", e.Title, got.Refusal, e.CDI.Refusal, diff, got.Message)
			}
			if got.Message == "" || strings.Contains(got.Message, "%!") {
				t.Errorf("the message is %q", got.Message)
			}
		})
	}
}
