package http

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// second is what happens in a second of a transfer.
type second struct {
	megabytes float64
	waited    float64 // of the second
}

func TestPace(t *testing.T) {
	const plenty = 1 << 40
	tests := map[string]struct {
		most    int
		left    int64
		seconds []second
		want    []int // connections behind each second
	}{
		"one connection is enough for a reader that doesn't wait": {
			most: 4, left: plenty,
			seconds: []second{{200, 0.1}, {200, 0.4}, {20, 0.5}},
			want:    []int{1, 1, 1},
		},
		"a server that gives each connection little gets more of them, up to the limit": {
			most: 4, left: plenty,
			seconds: []second{{20, 0.9}, {40, 0.9}, {80, 0.9}, {80, 0.9}},
			want:    []int{2, 4, 4, 4},
		},
		"up to a limit that is no power of two": {
			most: 3, left: plenty,
			seconds: []second{{20, 0.9}, {40, 0.9}, {60, 0.9}},
			want:    []int{2, 3, 3},
		},
		"what doesn't help is given up, and tried again much later, and then later still": {
			most: 4, left: plenty,
			seconds: []second{
				{100, 0.9}, {101, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9},
				{100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9}, {100, 0.9},
			},
			want: []int{2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		},
		"the second doubling is judged by itself": {
			most: 4, left: plenty,
			seconds: []second{{20, 0.9}, {40, 0.9}, {41, 0.9}, {40, 0.9}},
			want:    []int{2, 4, 2, 2},
		},
		"a reader that has enough with two has two": {
			most: 4, left: plenty,
			seconds: []second{{20, 0.9}, {35, 0.3}, {35, 0.3}},
			want:    []int{2, 2, 2},
		},
		"a short rest isn't worth it": {
			most: 4, left: 50e6,
			seconds: []second{{20, 0.9}},
			want:    []int{1},
		},
		"a stalled server is tried over another connection": {
			most: 4, left: plenty,
			seconds: []second{{0, 1}},
			want:    []int{2},
		},
		"one connection is all that is wanted": {
			most: 1, left: plenty,
			seconds: []second{{1, 1}, {1, 1}},
			want:    []int{1, 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPace(test.most)
			m := moment{at: time.Unix(1_800_000_000, 0)}
			p.begin(m)
			var got []int
			for _, s := range test.seconds {
				half := m
				half.at = m.at.Add(time.Second / 2)
				p.judge(half, test.left) // too early to say anything
				m.at = m.at.Add(time.Second)
				m.arrived += int64(s.megabytes * 1e6)
				m.waited += time.Duration(s.waited * float64(time.Second))
				p.judge(m, test.left)
				got = append(got, p.connections)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTroubleLeavesOneConnection(t *testing.T) {
	p := newPace(8)
	p.connections, p.trial, p.fewer = 8, true, 4
	p.trouble()
	if p.connections != 1 || p.trial || p.rest == 0 {
		t.Errorf("%+v", p)
	}
	for range 100 {
		p.trouble()
	}
	if p.rest != maxRest {
		t.Errorf("after much trouble it rests for %d periods", p.rest)
	}
}
