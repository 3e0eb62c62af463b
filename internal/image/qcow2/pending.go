package qcow2

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"unsafe"
)

// unitCost is the memory that a pending unit takes, in bytes.
const unitCost = int64(unsafe.Sizeof(unit{}))

// pending is the units whose bytes lie ahead in the stream, in the order of their offsets. It is a heap of sorted runs,
// one for each table, so that a unit costs little more than itself.
type pending struct {
	runs  runs
	count int64
	// cut is the offset from which on units were forgotten for want of memory; they can be found in the tables again.
	cut int64
}

func newPending() pending { return pending{cut: math.MaxInt64} }

// cost is the memory that it takes, in bytes.
func (p *pending) cost() int64 { return p.count * unitCost }

// add takes over units, in any order.
func (p *pending) add(units []unit) {
	units = slices.DeleteFunc(units, func(u unit) bool { return u.offset >= p.cut })
	if len(units) == 0 {
		return
	}
	slices.SortFunc(units, byOffset)
	p.count += int64(len(units))
	heap.Push(&p.runs, units)
}

func byOffset(a, b unit) int { return cmp.Compare(a.offset, b.offset) }

// first is the unit with the lowest offset.
func (p *pending) first() (unit, bool) {
	if len(p.runs) == 0 {
		return unit{}, false
	}
	return p.runs[0][0], true
}

// pop removes the unit that first answers.
func (p *pending) pop() {
	p.count--
	if p.runs[0] = p.runs[0][1:]; len(p.runs[0]) == 0 {
		heap.Pop(&p.runs)
		return
	}
	heap.Fix(&p.runs, 0)
}

// shed forgets the farther half of the units. It answers false where that is not possible because the nearer half of
// them has the same offset.
func (p *pending) shed() bool {
	offsets := make([]int64, 0, p.count)
	for _, r := range p.runs {
		for _, u := range r {
			offsets = append(offsets, u.offset)
		}
	}
	slices.Sort(offsets)
	cut := offsets[len(offsets)/2]
	if cut == offsets[0] {
		return false
	}
	p.cut, p.count = cut, 0
	kept := p.runs[:0]
	for _, r := range p.runs {
		n, _ := slices.BinarySearchFunc(r, cut, func(u unit, cut int64) int { return cmp.Compare(u.offset, cut) })
		if n > 0 {
			kept = append(kept, slices.Clone(r[:n])) // what was forgotten takes no memory any more
			p.count += int64(n)
		}
	}
	clear(p.runs[len(kept):])
	p.runs = kept
	heap.Init(&p.runs)
	return true
}

// runs implements heap.Interface.
type runs [][]unit

func (r runs) Len() int           { return len(r) }
func (r runs) Less(i, j int) bool { return r[i][0].offset < r[j][0].offset }
func (r runs) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *runs) Push(x any)        { *r = append(*r, x.([]unit)) }
func (r *runs) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return x
}
