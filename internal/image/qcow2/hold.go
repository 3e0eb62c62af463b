package qcow2

import "slices"

// span is a run of the image, from offset to end.
type span struct{ offset, end int64 }

// spans is a set of bytes of the image as sorted runs that neither touch nor overlap.
type spans []span

// add puts a run into the set.
func (s *spans) add(offset, end int64) {
	if n := len(*s); n > 0 && (*s)[n-1].offset <= offset { // the usual case: at the end
		if last := &(*s)[n-1]; offset <= last.end {
			last.end = max(last.end, end)
		} else {
			*s = append(*s, span{offset, end})
		}
		return
	}
	from, _ := slices.BinarySearchFunc(*s, offset, func(x span, offset int64) int {
		if x.end < offset {
			return -1
		}
		return 1 // the first that touches offset or lies behind it
	})
	to := from
	for to < len(*s) && (*s)[to].offset <= end {
		offset, end = min(offset, (*s)[to].offset), max(end, (*s)[to].end)
		to++
	}
	*s = slices.Replace(*s, from, to, span{offset, end})
}

// forget removes everything before offset.
func (s *spans) forget(offset int64) {
	n := 0
	for n < len(*s) && (*s)[n].end <= offset {
		n++
	}
	*s = slices.Delete(*s, 0, n)
}

// gaps calls f with each run between offset and end that is not in the set.
func (s spans) gaps(offset, end int64, f func(offset, end int64)) {
	for _, x := range s {
		if x.offset >= end {
			break
		}
		if x.offset > offset {
			f(offset, x.offset)
		}
		offset = max(offset, x.end)
	}
	if offset < end {
		f(offset, end)
	}
}

// heldBytes is the length up to which a run is held in one allocation, so that it can be given back in parts.
const heldBytes = 64 << 10

// heldOverhead is what a held run costs besides its bytes.
const heldOverhead = 64

// held is a run of the image that is kept because nobody knows yet what it is.
type held struct {
	offset int64
	data   []byte
}

func (h held) end() int64  { return h.offset + int64(len(h.data)) }
func (h held) cost() int64 { return int64(cap(h.data)) + heldOverhead }

// hold keeps what has left the window before all tables are known.
type hold struct {
	runs []held // by offset, without overlaps
	cost int64  // in bytes of memory
}

// add keeps a copy of b, which lies behind everything that is held.
func (h *hold) add(offset int64, b []byte) {
	for len(b) > 0 {
		n := min(len(b), heldBytes)
		r := held{offset, append(make([]byte, 0, n), b[:n]...)}
		h.runs = append(h.runs, r)
		h.cost += r.cost()
		offset, b = offset+int64(n), b[n:]
	}
}

// first is the index of the first run that ends behind offset.
func (h *hold) first(offset int64) int {
	i, _ := slices.BinarySearchFunc(h.runs, offset, func(r held, offset int64) int {
		if r.end() <= offset {
			return -1
		}
		return 1
	})
	return i
}

// copy fills p with what is held from offset on, up to the first byte that isn't, and answers how many bytes that is.
func (h *hold) copy(p []byte, offset int64) int {
	done := 0
	for i := h.first(offset); i < len(h.runs) && done < len(p); i++ {
		r := h.runs[i]
		at := offset + int64(done) - r.offset
		if at < 0 {
			break
		}
		done += copy(p[done:], r.data[at:])
	}
	return done
}

// remove gives back the runs between offset and end.
func (h *hold) remove(offset, end int64) {
	from := h.first(offset)
	to := from
	var rest []held
	for ; to < len(h.runs) && h.runs[to].offset < end; to++ {
		r := h.runs[to]
		h.cost -= r.cost()
		if n := offset - r.offset; n > 0 {
			rest = append(rest, held{r.offset, slices.Clip(slices.Clone(r.data[:n]))})
		}
		if n := r.end() - end; n > 0 {
			rest = append(rest, held{end, slices.Clip(slices.Clone(r.data[int64(len(r.data))-n:]))})
		}
	}
	for _, r := range rest {
		h.cost += r.cost()
	}
	h.runs = slices.Replace(h.runs, from, to, rest...)
}
