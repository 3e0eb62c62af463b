package stream

import (
	"encoding"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"sync"
)

const (
	// stateStride is how far the first states that a Verifier remembers lie apart, in bytes of the stream.
	stateStride = 1 << 20
	// maxStates is how many it remembers. With more, every second one is forgotten.
	maxStates = 1024
)

// State is where a stream's checksum stands after its first Offset bytes, so that it can be continued from there. With no
// checksum Hash is empty.
type State struct {
	Offset int64
	Hash   []byte
}

// Verifier is a reader that verifies, as Verify answers it, and remembers its states.
type Verifier struct {
	r    io.Reader
	want Checksum
	hash hash.Hash
	end  error // set once the stream has ended

	mu     sync.Mutex
	read   int64 // bytes of the whole stream
	stride int64
	states []State // by offset
}

// VerifyFrom answers a Verifier of a stream of which r is what comes after the bytes that are in a state. The zero State is
// the stream's beginning.
func VerifyFrom(r io.Reader, want Checksum, from State) (*Verifier, error) {
	v := &Verifier{r: r, want: want, read: from.Offset, stride: stateStride}
	if want.IsZero() {
		return v, nil
	}
	v.hash = newHash(want.algorithm)
	if from.Offset == 0 {
		return v, nil
	}
	h, ok := v.hash.(encoding.BinaryUnmarshaler)
	if !ok {
		return nil, fmt.Errorf("continue %s: it can't be", want.algorithm)
	}
	if err := h.UnmarshalBinary(from.Hash); err != nil {
		return nil, fmt.Errorf("continue %s at %d bytes: %w", want.algorithm, from.Offset, err)
	}
	v.states = []State{from}
	return v, nil
}

// Read implements io.Reader.
func (v *Verifier) Read(p []byte) (int, error) {
	if v.end != nil {
		return 0, v.end
	}
	n, err := v.r.Read(p)
	if v.hash == nil {
		return n, err
	}
	v.take(p[:n])
	if err == io.EOF { //nolint:errorlint // a wrapped one is a failure
		got := Checksum{algorithm: v.want.algorithm, sum: hex.EncodeToString(v.hash.Sum(nil))}
		if got != v.want {
			err = &ChecksumError{Want: v.want, Got: got}
		}
		v.end = err
	}
	return n, err
}

// take hashes p, and remembers the state at each multiple of the stride.
func (v *Verifier) take(p []byte) {
	for len(p) > 0 && v.stride > 0 {
		n := min(int64(len(p)), v.stride-v.read%v.stride)
		v.hash.Write(p[:n]) // a hash never answers an error
		p = p[n:]
		if v.read += n; v.read%v.stride == 0 {
			v.remember()
		}
	}
	if len(p) > 0 { // nobody will ask for states
		v.hash.Write(p)
	}
}

func (v *Verifier) remember() {
	h, ok := v.hash.(encoding.BinaryMarshaler)
	if !ok {
		return
	}
	b, err := h.MarshalBinary()
	if err != nil {
		return // there is one state fewer to continue from
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.states = append(v.states, State{v.read, b})
	if len(v.states) < maxStates {
		return
	}
	v.stride *= 2
	kept := v.states[:0]
	for i, s := range v.states {
		if i == 0 || s.Offset%v.stride == 0 {
			kept = append(kept, s)
		}
	}
	v.states = kept
}

// State answers the last state that is remembered at or before offset, and forgets those before it: offset must not fall
// from one call to the next. It may be called from another goroutine than Read.
func (v *Verifier) State(offset int64) State {
	if v.hash == nil {
		return State{Offset: offset}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for n < len(v.states) && v.states[n].Offset <= offset {
		n++
	}
	if n == 0 {
		return State{}
	}
	v.states = append(v.states[:0], v.states[n-1:]...)
	return v.states[0]
}
