package bench

import (
	"slices"
	"strings"
)

// figure is something that vmdisk wants to reach.
type figure struct {
	text    string
	wanted  float64
	atLeast bool // else at most
	// value is what was measured, if it was.
	value func(r results) (float64, bool)
}

func (f figure) reached(value float64) bool {
	if f.atLeast {
		return value >= f.wanted
	}
	return value <= f.wanted
}

// figures are the project's, as docs/streaming.md has them.
func figures() []figure {
	faster := func(group string, wanted float64) figure {
		return figure{group + ": faster than CDI's path, times", wanted, true, wallRatio(key{group, cdiPath}, key{group, vmdiskHTTP})}
	}
	return []figure{
		faster("qcow2 zlib", 2.5),
		{"qcow2 zlib over http: faster than qemu-img -W -m 16 from a file, times", 1.3, true,
			wallRatio(key{"qcow2 zlib", qemuFile}, key{"qcow2 zlib", vmdiskHTTP})},
		faster("qcow2 zstd", 2.5),
		faster("qcow2 plain", 2),
		faster("vmdk streamOptimized", 2.5),
		faster("raw", 3),
		faster("raw.gz", 1.8),
		faster("raw.xz", 4),
		faster("raw.xz of one block", 2.5),
		{"raw.zst over http: time of zstd -d, times", 2.5, false, wallRatio(key{"raw.zst", vmdiskHTTP}, key{"raw.zst", zstdFile})},
		{"20 ms before each answer: time without, times", 1.1, false, wallRatio(key{networks, vmdiskHTTP + onLate}, key{networks, vmdiskHTTP})},
		{"100 MB/s: time that the line alone takes, times", 1.15, false, ofTheLine(key{networks, vmdiskHTTP + onLimited})},
		{"100 GiB: time of 10 GiB with the same data, times", 1.1, false,
			wallRatio(key{growth, vmdiskHTTP + ", " + grow100}, key{growth, vmdiskHTTP + ", " + grow10})},
		{"anonymous memory, MiB, the most of all runs", 96, false, ofOurs(anonymousMiB, most)},
		{"anonymous memory, MiB, median of all runs", 64, false, ofOurs(anonymousMiB, median)},
		{"bytes served, of the image's, times", 1.01, false, ofOurs(servedShare, most)},
		{"bytes written, of what the target takes, times", 1.05, false, ofOurs(writtenShare, most)},
	}
}

// wallRatio divides the median times of two ways.
func wallRatio(of, by key) func(results) (float64, bool) {
	return func(r results) (float64, bool) {
		if len(r[of]) == 0 || len(r[by]) == 0 {
			return 0, false
		}
		return median(each(r[of], wallSeconds)) / median(each(r[by], wallSeconds)), true
	}
}

// ofTheLine is a way's time, measured in what a line of lineRate needs for the same bytes.
func ofTheLine(k key) func(results) (float64, bool) {
	return func(r results) (float64, bool) {
		if len(r[k]) == 0 {
			return 0, false
		}
		return median(each(r[k], func(u usage) float64 { return u.wall.Seconds() * lineRate / float64(u.served) })), true
	}
}

// ofOurs makes one value of all of vmdisk's runs.
func ofOurs(value func(usage) float64, of func([]float64) float64) func(results) (float64, bool) {
	return func(r results) (float64, bool) {
		var values []float64
		for k, runs := range r {
			if strings.HasPrefix(k.way, "vmdisk") {
				values = append(values, each(runs, value)...)
			}
		}
		if len(values) == 0 {
			return 0, false
		}
		return of(values), true
	}
}

func most(values []float64) float64 { return slices.Max(values) }

func servedShare(u usage) float64  { return float64(u.served) / float64(u.image) }
func writtenShare(u usage) float64 { return float64(u.written) / float64(u.allocated) }
