package bench

import (
	"fmt"
	"regexp"
)

// group is ways that are compared: they alternate, round by round.
type group struct {
	name   string
	rounds int
	ways   []way
}

// The names of groups whose ways differ in more than who does it.
const (
	networks = "networks"
	growth   = "the same data in 1, 10 and 100 GiB"
)

// Suites are the names that Options.Suite can have.
func Suites() []string { return []string{"quick", "full"} }

// plan is the groups of a suite. Quick has what the figures are about; full has more rounds, the remaining formats, and
// how the cost grows.
func plan(suite string) ([]group, error) {
	groups := []group{
		{"qcow2 zlib", 3, qemuReads(qcow2Zlib)},
		{"qcow2 zstd", 3, qemuReads(qcow2Zstd)},
		{"qcow2 plain", 3, qemuReads(qcow2Plain)},
		{"vmdk streamOptimized", 2, qemuReads(vmdkStream)},
		{"raw", 2, qemuReads(disk)},
		{"raw.gz", 2, []way{ours(rawGzip), cdi(rawGzip)}},
		{"raw.xz", 1, []way{ours(rawXz), cdi(rawXz), xz(rawXz)}},
		{"raw.zst", 2, []way{ours(rawZstd), oursFile(rawZstd), zstd(rawZstd)}}, // which CDI can't read
		{networks, 2, []way{
			ours(qcow2Zlib), ours(qcow2Zlib).late(), ours(qcow2Zlib).limited(), cdi(qcow2Zlib).late(), cdi(qcow2Zlib).limited(),
		}},
	}
	switch suite {
	case "quick":
		return groups, nil
	case "full":
		for i := range groups {
			groups[i].rounds += 2
		}
		return append(groups, more()...), nil
	default:
		return nil, fmt.Errorf("there is no suite %q: %v are known", suite, Suites())
	}
}

// more is what only the full suite has.
func more() []group {
	groups := []group{
		{"raw.xz of one block", 1, []way{ours(rawXzOne), cdi(rawXzOne), xz(rawXzOne)}},
		{"vmdk monolithicSparse", 3, qemuReads(vmdkSparse)},
		{"vhdx dynamic", 3, qemuReads(vhdxDynamic)},
		{"vhd dynamic", 3, qemuReads(vhdDynamic)},
		{"vdi dynamic", 3, qemuReads(vdiDynamic)},
	}
	growing := group{name: growth, rounds: 5}
	for _, image := range []string{grow1, grow10, grow100} {
		for _, w := range []way{ours(image), cdi(image)} {
			w.name += ", " + image
			growing.ways = append(growing.ways, w)
		}
	}
	many := group{name: "1, 4 and 16 imports at once", rounds: 2}
	for _, imports := range []int{1, 4, 16} {
		for _, w := range []way{ours(grow1), cdi(grow1)} {
			w.imports = imports
			w.name = fmt.Sprintf("%s, %d at once", w.name, imports)
			many.ways = append(many.ways, w)
		}
	}
	return append(groups, growing, many)
}

// qemuReads are the ways for an image that qemu-img can read.
func qemuReads(image string) []way {
	return []way{ours(image), cdi(image), oursFile(image), qemu(image)}
}

// choose keeps the groups whose names match, and gives them the rounds, if any are given.
func choose(groups []group, only *regexp.Regexp, rounds int) []group {
	var chosen []group
	for _, g := range groups {
		if only != nil && !only.MatchString(g.name) {
			continue
		}
		if rounds > 0 {
			g.rounds = rounds
		}
		chosen = append(chosen, g)
	}
	return chosen
}
