package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutLab(t *testing.T) {
	tests := map[string]struct {
		saved, want string
		changed     bool
	}{
		"rules of others stay as they are": {
			saved: "*filter\n:INPUT ACCEPT [5:300]\n[0:0] -A INPUT -i lo -j ACCEPT\nCOMMIT\n",
			want:  "*filter\n:INPUT ACCEPT [5:300]\n[0:0] -A INPUT -i lo -j ACCEPT\nCOMMIT\n",
		},
		"chains of Kubernetes go, with their rules and the jumps to them": {
			saved:   "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-ROUTER-INPUT - [0:0]\n[1:2] -A INPUT -j KUBE-ROUTER-INPUT\n[0:0] -A KUBE-ROUTER-INPUT -j RETURN\nCOMMIT\n",
			want:    "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n",
			changed: true,
		},
		"the lab's own rule is known by its comment": {
			saved:   "*nat\n[0:0] -A POSTROUTING -s 10.77.0.0/16 ! -d 10.77.0.0/16 -m comment --comment vmdisk-lab -j MASQUERADE\nCOMMIT\n",
			want:    "*nat\nCOMMIT\n",
			changed: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, changed := withoutLab(test.saved)
			if diff := cmp.Diff(test.want, got); diff != "" || changed != test.changed {
				t.Errorf("changed: %t, wanted %t; kept (-want +got):\n%s", changed, test.changed, diff)
			}
		})
	}
}

func TestLabSets(t *testing.T) {
	got := labSets("KUBE-SRC-AAA\nmine\ninet6:KUBE-DST-BBB\nkube-router-local-pods\nTMP-KUBE-CCC\n")
	want := []string{"KUBE-SRC-AAA", "inet6:KUBE-DST-BBB", "kube-router-local-pods", "TMP-KUBE-CCC"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
}

func TestADirectoryOfSomethingElseIsNoLabs(t *testing.T) {
	tests := map[string]struct {
		holds   []string
		refused bool
	}{
		"an empty one can become a lab's":            {},
		"one with built programs can become a lab's": {holds: []string{"bin"}},
		"a lab's is known by its lock":               {holds: []string{"lock", "bin", "etcd", "node-a"}},
		"somebody's home is left alone":              {holds: []string{"bin", "thesis.txt"}, refused: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range test.holds {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := requireOwn(dir); (err != nil) != test.refused {
				t.Errorf("got %v, want it refused: %t", err, test.refused)
			}
		})
	}
	if err := requireOwn(filepath.Join(t.TempDir(), "new")); err != nil {
		t.Errorf("a new directory is refused: %v", err)
	}
}

func TestEveryComponentHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range componentNames() {
		if seen[name] {
			t.Errorf("two components are called %s: they would share a pid file", name)
		}
		seen[name] = true
	}
}

func TestRunningTellsAProcessFromALaterOneOfTheSamePid(t *testing.T) {
	t.Setenv("LAB_DIR", t.TempDir())
	start, alive := startTime(os.Getpid())
	if !alive {
		t.Fatal("this process does not find itself")
	}
	tests := map[string]struct {
		file string
		want *record
	}{
		"the process that was started":           {fmt.Sprintf(`{"pid":%d,"start":%d,"digest":"d"}`, os.Getpid(), start), &record{os.Getpid(), start, "d"}},
		"another one with its pid":               {fmt.Sprintf(`{"pid":%d,"start":%d}`, os.Getpid(), start-1), nil},
		"none at all":                            {`{"pid":4194305,"start":1}`, nil},
		"a file that was not written to its end": {`{"pid":1`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := writeFile(pidFile("component"), test.file, 0o600); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, running("component")); diff != "" {
				t.Errorf("running (-want +got):\n%s", diff)
			}
		})
	}
}
