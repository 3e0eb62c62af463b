// Package mounts knows the kernel's mounts and loop devices, and takes away those that killed programs have left below a
// directory. It must not know what they were for.
package mounts

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Point is one mount, as in /proc/self/mountinfo (proc_pid_mountinfo(5)).
type Point struct {
	Device string // major:minor of the mounted filesystem
	Root   string // what of that filesystem is mounted: "/loop3" for a bind mount of a device node
	Target string
	FSType string
}

// Points are the mounts that this process sees. Of two on one target, the later lies on top.
func Points() ([]Point, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return parse(string(text))
}

// parse reads lines of the form ID PARENT MAJOR:MINOR ROOT TARGET OPTIONS [TAGS...] - FSTYPE SOURCE SUPEROPTIONS.
func parse(mountinfo string) ([]Point, error) {
	var points []Point
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		dash := slices.Index(fields, "-")
		if len(fields) < 6 || dash < 0 || dash+1 >= len(fields) {
			return nil, fmt.Errorf("list mounts: unknown line %q in /proc/self/mountinfo", line)
		}
		points = append(points, Point{
			Device: fields[2],
			Root:   unescape(fields[3]),
			Target: unescape(fields[4]),
			FSType: fields[dash+1],
		})
	}
	return points, nil
}

// unescape undoes the kernel's \ooo for space, tab, newline and backslash.
func unescape(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// At returns the uppermost mount on target; ok is false if nothing is mounted there.
func At(target string) (found Point, ok bool, err error) {
	points, err := Points()
	if err != nil {
		return Point{}, false, err
	}
	for _, point := range points {
		if point.Target == target {
			found, ok = point, true
		}
	}
	return found, ok, nil
}

// below picks the mounts on a directory and below it, in the order in which they can be unmounted: the deepest and latest
// first.
func below(points []Point, dir string) []Point {
	var found []Point
	for _, point := range slices.Backward(points) {
		if point.Target == dir || strings.HasPrefix(point.Target, dir+"/") {
			found = append(found, point)
		}
	}
	depth := func(p Point) int { return strings.Count(p.Target, "/") }
	slices.SortStableFunc(found, func(a, b Point) int { return depth(b) - depth(a) })
	return found
}
