package suite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCount(t *testing.T) {
	tests := map[string]struct {
		events []string
		each   bool
		want   Counts
		says   string
	}{
		"passes are counted, subtests too, and told in one line": {
			events: []string{
				`{"Action":"start","Package":"p"}`,
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/one","Elapsed":0.1}`,
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.2}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"pass","Package":"p","Elapsed":0.3}`,
			},
			want: Counts{Passed: 2},
			says: "  ok    p  2 passed, 0 failed  (300ms)\n",
		},
		"a failure shows what the test printed": {
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA","Elapsed":1}`,
				`{"Action":"fail","Package":"p","Elapsed":1}`,
			},
			want: Counts{Failed: 1},
			says: "    a_test.go:1: no\n  FAIL  p  0 passed, 1 failed  (1s)\n",
		},
		"a package that does not build is one failure": {
			events: []string{
				`{"Action":"build-output","ImportPath":"p","Output":"p.go:1: undefined: x\n"}`,
				`{"Action":"build-fail","ImportPath":"p"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","Elapsed":0}`,
			},
			want: Counts{Failed: 1},
			says: "p.go:1: undefined: x\nFAIL\tp [build failed]\n  FAIL  p  0 passed, 1 failed  (0s)\n",
		},
		"a crash after a passed test is a failure": {
			events: []string{
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}`,
				`{"Action":"output","Package":"p","Output":"panic: oh\n"}`,
				`{"Action":"fail","Package":"p","Elapsed":0}`,
			},
			want: Counts{Passed: 1, Failed: 1},
			says: "panic: oh\n  FAIL  p  1 passed, 1 failed  (0s)\n",
		},
		"each test is named where that was asked for, subtests are not": {
			events: []string{
				`{"Action":"pass","Package":"p","Test":"TestA/one","Elapsed":2}`,
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":3}`,
				`{"Action":"pass","Package":"p","Elapsed":3}`,
			},
			each: true,
			want: Counts{Passed: 2},
			says: "    pass  TestA  (3s)\n  ok    p  2 passed, 0 failed  (3s)\n",
		},
		"what a package prints outside of its tests is shown at once where each test is named": {
			events: []string{
				`{"Action":"output","Package":"p","Output":"building vmdisk\n"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t3.0s\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":3}`,
				`{"Action":"pass","Package":"p","Elapsed":3}`,
			},
			each: true,
			want: Counts{Passed: 1},
			says: "    building vmdisk\n    pass  TestA  (3s)\n  ok    p  1 passed, 0 failed  (3s)\n",
		},
		"a package without tests is passed over": {
			events: []string{`{"Action":"output","Package":"p","Output":"? p [no test files]\n"}`, `{"Action":"skip","Package":"p","Elapsed":0}`},
		},
		"words of go itself are shown": {
			events: []string{"go: no such tool"},
			says:   "go: no such tool\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			got, err := count(strings.NewReader(strings.Join(test.events, "\n")+"\n"), &out, test.each)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.says, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheClosingLine(t *testing.T) {
	tests := map[string]struct {
		counts Counts
		want   string
	}{
		"without skipped tests": {Counts{Passed: 12}, "12 passed, 0 failed"},
		"with skipped tests":    {Counts{Passed: 12, Failed: 1, Skipped: 2}, "12 passed, 1 failed, 2 skipped"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.counts.String()); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}
