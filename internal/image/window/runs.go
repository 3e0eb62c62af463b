package window

import (
	"math"
	"slices"
	"unsafe"

	"vmdisk.io/vmdisk/internal/image"
)

// Run is blocks that lie side by side both in the image and on the disk.
type Run struct {
	// At is where the first one lies in the image, in the format's own unit.
	At uint32
	// Count is how many they are.
	Count uint32
	// Block is the number of the first one on the disk.
	Block int64
}

// runCost is the memory that a Run takes, in bytes.
const runCost = int64(unsafe.Sizeof(Run{}))

// Runs gathers where the blocks of a disk lie. It takes bounded memory: when there are too many runs, those that lie
// farther away are forgotten, and can be gathered again when the stream has come near them.
type Runs struct {
	// Stride is how far a block's neighbour lies from it in the image; 0 keeps each block by itself.
	Stride uint32
	// Format is whose blocks they are.
	Format image.Format
	// CanForget says that the tables can be read again.
	CanForget bool

	limit int
	list  []Run
	from  int64 // blocks before it were served, or are not wanted
	cut   int64 // blocks from it on are forgotten
}

// NewRuns answers an empty Runs that takes up to half of limits.MemoryBytes.
func NewRuns(format image.Format, stride uint32, limits image.Limits, canForget bool) *Runs {
	limit := max(limits.WithDefaults().MemoryBytes/2/runCost, 16)
	return &Runs{Stride: stride, Format: format, CanForget: canForget, limit: int(limit), cut: math.MaxInt64}
}

// SkipBefore leaves out the blocks that are added from now on and lie before at.
func (r *Runs) SkipBefore(at int64) { r.from = at }

// Add adds a block of the disk that lies at the given place of the image.
func (r *Runs) Add(at uint32, block int64) error {
	if int64(at) < r.from || int64(at) >= r.cut {
		return nil
	}
	if n := len(r.list); n > 0 && r.Stride > 0 {
		last := &r.list[n-1]
		if int64(at) == int64(last.At)+int64(last.Count)*int64(r.Stride) && block == last.Block+int64(last.Count) && last.Count < math.MaxUint32 {
			last.Count++
			return nil
		}
	}
	if len(r.list) == cap(r.list) {
		r.list = slices.Grow(r.list, min(max(len(r.list)/4, 256), r.limit+1-min(len(r.list), r.limit)))
	}
	r.list = append(r.list, Run{at, 1, block})
	if len(r.list) <= r.limit {
		return nil
	}
	return r.shed()
}

// shed forgets the half of the runs that lies farther away. A run that goes on behind the cut is cut there.
func (r *Runs) shed() error {
	if !r.CanForget {
		return image.NeedsRandom(r.Format)
	}
	r.sort()
	keep := len(r.list) / 2
	for keep > 0 && r.list[keep-1].At == r.list[keep].At {
		keep--
	}
	if keep == 0 {
		return image.Corrupt(r.Format, "more than %d parts of its disk are stored in the same place", len(r.list)/2)
	}
	r.cut = int64(r.list[keep].At)
	r.list = r.list[:keep]
	for i := range r.list {
		run := &r.list[i]
		if r.Stride > 0 {
			run.Count = uint32(min(int64(run.Count), (r.cut-int64(run.At)+int64(r.Stride)-1)/int64(r.Stride)))
		}
	}
	return nil
}

func (r *Runs) sort() {
	slices.SortFunc(r.list, func(a, b Run) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		case a.Block < b.Block:
			return -1
		default:
			return 1
		}
	})
}

// Each gathers the blocks and hands them to serve in the order of the image, together with where the next one lies:
// from there on blocks are served later, and none before it. Behind the last one that is math.MaxInt64. gather adds all
// blocks; it is called again for what was forgotten.
func (r *Runs) Each(gather func() error, serve func(run Run, next int64) error) error {
	for {
		if err := gather(); err != nil {
			return err
		}
		r.sort()
		for i, run := range r.list {
			next := r.cut
			if i+1 < len(r.list) {
				next = int64(r.list[i+1].At)
			}
			if err := serve(run, next); err != nil {
				return err
			}
		}
		if r.cut == math.MaxInt64 {
			return nil
		}
		r.list, r.from, r.cut = r.list[:0], r.cut, math.MaxInt64
	}
}
