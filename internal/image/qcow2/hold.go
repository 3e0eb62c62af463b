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
	data   []byte // nil once all of it was given back
}

func (h held) end() int64  { return h.offset + int64(len(h.data)) }
func (h held) cost() int64 { return int64(cap(h.data)) + heldOverhead }

// hold keeps what has left the window before all tables are known.
type hold struct {
	runs  []held // by offset, without overlaps
	given int    // of them were given back and stay until they are half of all, so that giving back is cheap
	cost  int64  // in bytes of memory
}

// add keeps a copy of b, which lies behind everything that is held.
func (h *hold) add(offset int64, b []byte) {
	if h.given > len(h.runs)/2 {
		h.runs = slices.DeleteFunc(h.runs, func(r held) bool { return r.data == nil })
		h.given = 0
	}
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

// remove gives back what is held between offset and end.
func (h *hold) remove(offset, end int64) {
	for i := h.first(offset); i < len(h.runs) && h.runs[i].offset < end; i++ {
		r := &h.runs[i]
		if r.data == nil {
			continue
		}
		before, behind := offset-r.offset, r.end()-end // bytes of the run that stay
		h.cost -= r.cost()
		switch {
		case before > 0 && behind > 0:
			rest := held{end, slices.Clip(slices.Clone(r.data[int64(len(r.data))-behind:]))}
			r.data = slices.Clip(slices.Clone(r.data[:before]))
			h.cost += r.cost() + rest.cost()
			h.runs = slices.Insert(h.runs, i+1, rest)
			return
		case before > 0:
			r.data = slices.Clip(slices.Clone(r.data[:before]))
			h.cost += r.cost()
		case behind > 0:
			*r = held{end, slices.Clip(slices.Clone(r.data[int64(len(r.data))-behind:]))}
			h.cost += r.cost()
		default:
			r.data = nil
			h.given++
		}
	}
}
