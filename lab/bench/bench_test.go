package bench

import "testing"

func TestBusier(t *testing.T) {
	tests := map[string]struct {
		loadavg string
		want    bool
	}{
		"a quiet machine":       {"0.42 3.00 2.00 1/100 4711\n", false},
		"a busy one":            {"14.82 7.81 5.04 9/100 4711\n", true},
		"what isn't understood": {"", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, got := busier(test.loadavg, 1); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
