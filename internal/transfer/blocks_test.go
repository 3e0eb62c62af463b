package transfer

import (
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allocatedBytes is how much room a file takes.
func allocatedBytes(t *testing.T, f *os.File) int64 {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestDataRunsAreWholeBlocksOnTheDisk(t *testing.T) {
	type run struct{ From, To int }
	tests := map[string]struct {
		offset int64
		n      int
		ones   []int // the bytes that aren't zero
		want   []run
	}{
		"nothing":                   {0, 0, nil, nil},
		"zeros":                     {0, 10_000, nil, nil},
		"one byte":                  {0, 12288, []int{5000}, []run{{4096, 8192}}},
		"the last byte of a block":  {0, 12288, []int{8191}, []run{{4096, 8192}}},
		"two blocks side by side":   {0, 12288, []int{0, 4096}, []run{{0, 8192}}},
		"two blocks apart":          {0, 12288, []int{0, 8192}, []run{{0, 4096}, {8192, 12288}}},
		"a piece within a block":    {512, 512, []int{3}, []run{{0, 512}}},
		"a piece over a block edge": {3584, 1024, []int{512}, []run{{512, 1024}}},
		"an end within a block":     {4096, 5000, []int{4999}, []run{{4096, 5000}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := make([]byte, test.n)
			for _, i := range test.ones {
				p[i] = 1
			}
			var got []run
			if err := dataRuns(p, test.offset, func(from, to int) error { got = append(got, run{from, to}); return nil }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
