package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMedian(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   float64
	}{
		"of nothing it is zero":                              {nil, 0},
		"of one value it is that":                            {[]float64{3}, 3},
		"the middle one, in whatever order they come":        {[]float64{9, 1, 2}, 2},
		"the mean of the two in the middle of an even count": {[]float64{4, 1, 2, 100}, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := append([]float64(nil), test.values...)
			if got := median(test.values); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if diff := cmp.Diff(before, test.values); diff != "" {
				t.Errorf("the values were changed (-before +after):\n%s", diff)
			}
		})
	}
}

// seconds are runs of so many seconds, with memory, bytes served and bytes written as they should be.
func seconds(values ...float64) []usage {
	var runs []usage
	for _, v := range values {
		runs = append(runs, usage{
			wall: time.Duration(v * float64(time.Second)), cpu: time.Duration(v * float64(time.Second)),
			anonymous: 50 << 20, resident: 60 << 20, written: 1_000_000, allocated: 1_000_000, served: 300_000_000, image: 300_000_000,
		})
	}
	return runs
}

func TestPrintGroup(t *testing.T) {
	g := group{name: "qcow2 zlib", rounds: 3, ways: []way{{name: vmdiskHTTP}, {name: cdiPath}, {name: qemuFile}}}
	var out strings.Builder
	printGroup(&out, g, results{
		{g.name, vmdiskHTTP}: seconds(2, 4, 3),
		{g.name, cdiPath}:    seconds(9),
	})
	want := `
qcow2 zlib (medians of 3 rounds)
                  wall s  (least–most)  CPU s  anon MiB  RSS MiB  written MB  served MB  ratio
  vmdisk, http      3.00   (2.00–4.00)   3.00        50       60           1        300  1.00×
  CDI's path        9.00   (9.00–9.00)   9.00        50       60           1        300  3.00×
  qemu-img, file  failed

`
	if diff := cmp.Diff(want, withoutTrailingSpace(out.String())); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestPrintFigures(t *testing.T) {
	var out strings.Builder
	printFigures(&out, results{
		{"qcow2 zlib", vmdiskHTTP}:         seconds(2),
		{"qcow2 zlib", cdiPath}:            seconds(10),
		{"qcow2 zlib", qemuFile}:           seconds(2),
		{networks, vmdiskHTTP}:             seconds(2),
		{networks, vmdiskHTTP + onLate}:    seconds(2.5),
		{networks, vmdiskHTTP + onLimited}: seconds(3),
	})
	want := `to be reached                                                           wanted  measured
qcow2 zlib: faster than CDI's path, times                               ≥ 2.5   5.00      reached
qcow2 zlib over http: faster than qemu-img -W -m 16 from a file, times  ≥ 1.3   1.00      MISSED
20 ms before each answer: time without, times                           ≤ 1.1   1.25      MISSED
100 MB/s: time that the line alone takes, times                         ≤ 1.15  1.00      reached
anonymous memory, MiB, the most of all runs                             ≤ 96    50.00     reached
anonymous memory, MiB, median of all runs                               ≤ 64    50.00     reached
bytes served, of the image's, times                                     ≤ 1.01  1.00      reached
bytes written, of what the target takes, times                          ≤ 1.05  1.00      reached
`
	if diff := cmp.Diff(want, withoutTrailingSpace(out.String())); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}

func withoutTrailingSpace(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		kept.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return kept.String()
}
